"""The clipped surrogate of PPO and GRPO."""

from __future__ import annotations

from typing_extensions import override

from grpo_lightning.errors import require_range
from grpo_lightning.losses.base import LossInputs, LossTerms, PolicyLoss, bounded_exp


class ClippedPolicyLoss(PolicyLoss):
    """``-min(rho A, clip(rho, 1 - epsilon_low, 1 + epsilon_high) A)`` a step, ``rho = pi_theta / pi_old`` of the step.

    A step has no gradient where the policy has already gone far enough in the direction of its advantage: ``A > 0``
    and ``rho > 1 + epsilon_high``, or ``A < 0`` and ``rho < 1 - epsilon_low``. Elsewhere its gradient is ``-rho A``
    times that of the log-probability. A step of advantage 0 has term 0 and gradient 0.

    Source: Schulman et al., arXiv 1707.06347, eq. 7, with one range; Yu et al. (DAPO), arXiv 2503.14476, with two
    (0.2 and 0.28).

    Step metrics: ``ratio`` (``rho``); ``clip_fraction_low`` and ``clip_fraction_high`` (1 where the lower or the upper
    bound has taken the gradient).

    Args:
        epsilon_low: How far the ratio may fall below 1, from 0 to 1.
        epsilon_high: How far it may rise above 1; not negative.

    Example:
        >>> from grpo_lightning.losses.clipped import ClippedPolicyLoss
        >>> ClippedPolicyLoss(epsilon_high=0.28).scope
        'step'
    """

    name = "clipped"
    scope = "step"

    def __init__(self, *, epsilon_low: float = 0.2, epsilon_high: float = 0.2) -> None:
        require_range("epsilon_low", epsilon_low, low=0.0, high=1.0)
        require_range("epsilon_high", epsilon_high, low=0.0, high=float("inf"), high_open=True)
        self.epsilon_low, self.epsilon_high = epsilon_low, epsilon_high

    @override
    def __call__(self, inputs: LossInputs) -> LossTerms:
        """The terms of one micro-batch: [S], normalised by nothing."""
        advantages_S = inputs.advantages_S.to(inputs.log_probs_S.dtype)
        ratio_S = bounded_exp(inputs.log_probs_S - inputs.old_log_probs_S)
        low, high = 1.0 - self.epsilon_low, 1.0 + self.epsilon_high
        low_S = (advantages_S < 0) & (ratio_S < low)
        high_S = (advantages_S > 0) & (ratio_S > high)
        # Not min and clamp: where both branches are equal, their gradient depends on the library.
        limited_S = ratio_S.masked_fill(low_S, low).masked_fill(high_S, high)
        metrics = {
            "ratio": ratio_S.detach(),
            "clip_fraction_low": low_S.to(ratio_S.dtype),
            "clip_fraction_high": high_S.to(ratio_S.dtype),
        }
        return LossTerms(-advantages_S * limited_S, metrics)
