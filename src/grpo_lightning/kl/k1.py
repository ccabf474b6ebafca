"""The log-ratio itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor
from typing_extensions import override

from grpo_lightning.formula import Formula
from grpo_lightning.kl.base import KLEstimator, KLInputs


class K1(KLEstimator):
    """``k1 = d`` a step, ``d = log pi_theta - log pi_ref``.

    Value: unbiased for ``KL(pi_theta || pi_ref)`` under the policy's own samples, with large variance and either
    sign. Summed over a row it is unbiased for the divergence of whole rows.

    In the loss: the expectation of ``grad d`` is 0, per step and for whole rows, so it adds noise and no pull towards the
    reference. In the reward: with score-function terms ``grad log pi_theta`` times the sum of ``k1`` over the row, or over
    its steps from there on, the expectation is the gradient of the divergence of whole rows, exactly. It is the one to
    choose for the reward.

    Source: Schulman, joschu.net/blog/kl-approx.html.

    Example:
        >>> import torch
        >>> from grpo_lightning.kl.base import KLInputs
        >>> K1()(KLInputs(torch.tensor([-1.0, -2.0]), torch.tensor([-1.5, -1.0]), torch.zeros(2))).tolist()
        [0.5, -1.0]
    """

    name = "k1"
    differs: ClassVar[Mapping[str, str]] = {
        "verl": "named kl or k1; the same value",
        "OpenRLHF": "some versions clamp the value to +-10, with no gradient outside",
    }

    @override
    def __call__(self, inputs: KLInputs) -> Tensor:
        return inputs.log_probs_S - inputs.reference_log_probs_S

    @override
    def formula(self) -> Formula:
        return Formula(
            "k_it = d_it",
            "k_{i,t} = d_{i,t}",
            {"d_it": "log pi_theta - log pi_ref"},
            ("Schulman, joschu.net/blog/kl-approx.html",),
        )
