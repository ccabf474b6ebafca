"""The magnitude of the log-ratio."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor
from typing_extensions import override

from grpo_lightning.formula import Formula
from grpo_lightning.kl.base import KLEstimator, KLInputs


class AbsoluteKL(KLEstimator):
    """``abs = |d|`` a step, ``d = log pi_theta - log pi_ref``.

    Value: not an estimate of ``KL``; never negative, 0 where the policies agree.

    In the loss: the expectation of ``sign(d) grad log pi_theta`` is twice the gradient of the total variation distance
    ``1/2 sum_v |pi_theta - pi_ref|`` of each step with its prefix held fixed; it does not fade as the policies come close.
    In the reward its gradient is that of its own expectation, less the one that it has in the loss.

    Source: Schulman, joschu.net/blog/kl-approx.html, for ``d``.

    Example:
        >>> import torch
        >>> from grpo_lightning.kl.base import KLInputs
        >>> AbsoluteKL()(KLInputs(torch.tensor([-1.0, -2.0]), torch.tensor([-1.5, -1.0]), torch.zeros(2))).tolist()
        [0.5, 1.0]
    """

    name = "abs"
    differs: ClassVar[Mapping[str, str]] = {"verl": "named abs; the same value"}

    @override
    def __call__(self, inputs: KLInputs) -> Tensor:
        return (inputs.log_probs_S - inputs.reference_log_probs_S).abs()

    @override
    def formula(self) -> Formula:
        return Formula(
            "k_it = |d_it|",
            "k_{i,t} = |d_{i,t}|",
            {"d_it": "log pi_theta - log pi_ref"},
            ("Schulman, joschu.net/blog/kl-approx.html",),
        )
