"""Half the squared log-ratio."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor
from typing_extensions import override

from grpo_lightning.errors import require_range
from grpo_lightning.formula import Formula, latex_number, number
from grpo_lightning.kl.base import KLEstimator, KLInputs


class K2(KLEstimator):
    """``k2 = d^2 / 2`` a step, ``d = log pi_theta - log pi_ref``; or ``min(d^2 / 2, limit)``.

    Value: biased for ``KL(pi_theta || pi_ref)``, with little variance and never negative.

    In the loss: the expectation of ``d grad log pi_theta`` is the gradient of ``KL(pi_theta || pi_ref)`` of each step with
    its prefix held fixed, exactly, as long as the samples are the policy's own and no limit is met. The estimator to choose
    for the loss. Of the gradient of the divergence of whole rows it lacks the part through the choice of prefixes. In the
    reward it gives neither: the gradient is that of its own expectation, less the one it has in the loss.

    Source: Schulman, joschu.net/blog/kl-approx.html.

    Args:
        limit: Largest value; above it the gradient is 0. Above 0, or ``None`` for none.

    Example:
        >>> import torch
        >>> from grpo_lightning.kl.base import KLInputs
        >>> K2()(KLInputs(torch.tensor([-1.0, -2.0]), torch.tensor([-1.5, -1.0]), torch.zeros(2))).tolist()
        [0.125, 0.5]
    """

    name = "k2"
    differs: ClassVar[Mapping[str, str]] = {
        "verl": "named mse or k2; the same value. k3+ has the value of k3 and the gradient of k2",
        "OpenRLHF": "clamps the value to 10, with no gradient above: limit=10",
    }

    def __init__(self, *, limit: float | None = None) -> None:
        if limit is not None:
            require_range("limit", limit, low=0.0, high=float("inf"), low_open=True, high_open=True)
        self.limit = limit

    @override
    def __call__(self, inputs: KLInputs) -> Tensor:
        values_S = 0.5 * (inputs.log_probs_S - inputs.reference_log_probs_S) ** 2
        return values_S if self.limit is None else values_S.clamp(max=self.limit)

    @override
    def formula(self) -> Formula:
        text, latex = "d_it^2 / 2", r"\tfrac12 d_{i,t}^2"
        if self.limit is not None:
            text, latex = f"min({text}, {number(self.limit)})", rf"\min({latex}, {latex_number(self.limit)})"
        return Formula(
            f"k_it = {text}",
            f"k_{{i,t}} = {latex}",
            {"d_it": "log pi_theta - log pi_ref"},
            ("Schulman, joschu.net/blog/kl-approx.html",),
        )
