"""Policy gradient with a squared penalty on how far the policy moves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from typing_extensions import override

from grpo_lightning.errors import require, require_range
from grpo_lightning.formula import Formula, latex_number, number
from grpo_lightning.losses.base import LossInputs, LossTerms, PolicyLoss, bounded_exp


class DROLoss(PolicyLoss):
    """``-(A log pi_theta - beta/2 (log pi_theta - log pi_old)^2)`` a step, or a row with the sums over its steps.

    No ratio multiplies the gradient: it is ``-(A - beta (log pi_theta - log pi_old)) grad log pi_theta``, so that a step
    stops where its log-ratio is ``A / beta``. Of ``level="sequence"`` the log-probabilities are those of the whole row, and
    its advantage the mean over its steps. Steps of advantage 0 have the penalty too. Where the policy is still the old one
    the gradient is REINFORCE's. Terms are normalised by nothing.

    Source: Richemond et al., arXiv 2405.19107 (direct reward optimisation, there with a learned value); Kimi k1.5, arXiv
    2501.12599, for the row's log-ratio, whose advantage is the reward minus the group's mean; per step as in verl.

    Step metrics: ``ratio`` (``pi_theta / pi_old`` of the step).

    Args:
        beta: Weight of the penalty, in advantages per nat; above 0.
        level: ``step`` or ``sequence``.

    Example:
        >>> import torch
        >>> from grpo_lightning.losses.dro import DROLoss, LossInputs
        >>> lp, old, a = torch.tensor([-1.0, -2.0]), torch.tensor([-3.0, -2.0]), torch.tensor([0.5, 0.5])
        >>> inputs = LossInputs(lp, old, old, a, torch.tensor([0, 0]), torch.tensor([2]), torch.tensor([0]))
        >>> DROLoss(beta=0.5)(inputs).terms.tolist(), DROLoss(beta=0.5, level="sequence")(inputs).terms.tolist()
        ([1.5, 1.0], [2.5])
    """

    name = "dro"
    runs_silent = True
    differs: ClassVar[Mapping[str, str]] = {
        "verl": "per step only.",
        "Tinker": "per step only, and the log-ratio is to the policy that sampled.",
    }

    def __init__(self, *, beta: float = 0.1, level: Literal["step", "sequence"] = "step") -> None:
        require_range("beta", beta, low=0.0, high=float("inf"), low_open=True, high_open=True)
        require(level in ("step", "sequence"), "level", level, "is no level", "set 'step' or 'sequence'")
        self.beta, self.level = beta, level
        self.scope = level

    @override
    def __call__(self, inputs: LossInputs) -> LossTerms:
        """The terms of one micro-batch: [S], or [R] of level ``sequence``; normalised by nothing."""
        advantages, log_probs = inputs.advantages_S.to(inputs.log_probs_S.dtype), inputs.log_probs_S
        log_ratios = log_ratio_S = log_probs - inputs.old_log_probs_S
        if self.level == "sequence":
            advantages = inputs.mean_rows(advantages)
            log_probs, log_ratios = inputs.sum_rows(log_probs), inputs.sum_rows(log_ratio_S)
        terms = self.beta / 2 * log_ratios**2 - advantages * log_probs
        return LossTerms(terms, {"ratio": bounded_exp(log_ratio_S.detach())})

    @override
    def formula(self) -> Formula:
        """``l_it`` or ``l_i``, with the object's numbers."""
        half = self.beta / 2
        index, policy = ("it", "") if self.level == "step" else ("i", "(y_i)")
        latex_policy = "" if self.level == "step" else "(y_i)"
        return Formula(
            text=f"l_{index} = -(A_{index} log pi_theta{policy} "
            f"- {number(half)} (log pi_theta{policy} - log pi_old{policy})^2)",
            latex=rf"\ell_{{{index}}} = -\left(A_{{{index}}} \log\pi_\theta{latex_policy} - {latex_number(half)} "
            rf"\left(\log\frac{{\pi_\theta{latex_policy}}}{{\pi_{{old}}{latex_policy}}}\right)^2\right)",
            symbols={} if self.level == "step" else {"pi(y_i)": "product of the probabilities of the row's steps"},
            sources=("Richemond et al., arXiv 2405.19107", "Kimi k1.5, arXiv 2501.12599"),
        )
