"""REINFORCE with a clipped importance weight (CISPO)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from typing_extensions import override

from grpo_lightning.errors import require_range
from grpo_lightning.formula import Formula, latex_number, number
from grpo_lightning.losses.base import LossInputs, LossTerms, PolicyLoss, bounded_exp


class CISPO(PolicyLoss):
    """``-sg[clip(rho, 1 - epsilon_low, 1 + epsilon_high)] A log pi_theta`` a step, ``rho = pi_theta / pi_old`` of the step.

    ``sg`` stops the gradient: every step keeps a gradient, ``-clip(rho) A`` times that of its log-probability, also where
    PPO would clip it away. While ``pi_theta`` equals ``pi_old`` it is REINFORCE. A step of advantage 0 has term 0 and
    gradient 0.

    The paper divides by the number of steps (aggregation ``token_mean``), has no lower bound in practice and gives no number
    for the upper one; 5, the default here, is about what ScaleRL uses. A bound below 1 cannot be written.

    Source: MiniMax (MiniMax-M1), arXiv 2506.13585, eq. 4 and 5; Khatri et al. (ScaleRL), arXiv 2510.13786.

    Step metrics: ``ratio`` (``rho``); ``weight`` (``clip(rho)``); ``clip_fraction_low`` and ``clip_fraction_high`` (1 where
    the weight is the lower or the upper bound instead of the ratio).

    Args:
        epsilon_low: How far the weight may fall below 1; not negative. From 1 on there is no lower bound.
        epsilon_high: How far it may rise above 1; not negative.

    Example:
        >>> import torch
        >>> from grpo_lightning.losses.base import LossInputs
        >>> from grpo_lightning.losses.cispo import CISPO
        >>> inputs = LossInputs(torch.tensor([-1.0, -2.0]), torch.tensor([-4.0, -2.0]), torch.zeros(2), torch.ones(2),
        ...                     torch.tensor([0, 0]), torch.tensor([2]), torch.tensor([0]))
        >>> CISPO()(inputs).terms  # weights 5, instead of exp(3), and 1
        tensor([5., 2.])
    """

    name = "cispo"
    scope = "step"
    differs: ClassVar[Mapping[str, str]] = {
        "TRL": "its epsilon_high is the bound itself, not its distance from 1: epsilon_high=5 there is 4 here, and a value "
        "below 1 scales every step down.",
        "ms-swift": "as TRL: epsilon_high is the bound itself.",
        "verl": "uses the range of PPO's clip (0.2 on both sides unless set) and holds the log-ratio between -20 and 20.",
        "SkyRL": "holds the log-ratio between -20 and 20.",
    }

    def __init__(self, *, epsilon_low: float = 1.0, epsilon_high: float = 4.0) -> None:
        require_range("epsilon_low", epsilon_low, low=0.0, high=float("inf"), high_open=True)
        require_range("epsilon_high", epsilon_high, low=0.0, high=float("inf"), high_open=True)
        self.epsilon_low, self.epsilon_high = epsilon_low, epsilon_high

    @override
    def formula(self) -> Formula:
        low, high = max(1.0 - self.epsilon_low, 0.0), 1.0 + self.epsilon_high
        return Formula(
            f"l_it = -sg[clip(rho_it, {number(low)}, {number(high)})] A_it log pi_theta(it)",
            rf"\ell_{{i,t}} = -\operatorname{{sg}}\left[\operatorname{{clip}}(\rho_{{i,t}}, {latex_number(low)}, "
            rf"{latex_number(high)})\right] A_{{i,t}} \log \pi_\theta(y_{{i,t}})",
            {"sg": "without gradient"},
            ("MiniMax (MiniMax-M1), arXiv 2506.13585, eq. 4 and 5",),
        )

    @override
    def __call__(self, inputs: LossInputs) -> LossTerms:
        """The terms of one micro-batch: [S], normalised by nothing."""
        advantages_S = inputs.advantages_S.to(inputs.log_probs_S.dtype)
        low, high = 1.0 - self.epsilon_low, 1.0 + self.epsilon_high
        ratio_S = bounded_exp(inputs.log_probs_S.detach() - inputs.old_log_probs_S)
        weight_S = ratio_S.clamp(low, high)
        metrics = {
            "ratio": ratio_S,
            "weight": weight_S,
            "clip_fraction_low": (ratio_S < low).to(ratio_S.dtype),
            "clip_fraction_high": (ratio_S > high).to(ratio_S.dtype),
        }
        return LossTerms(-weight_S * advantages_S * inputs.log_probs_S, metrics)
