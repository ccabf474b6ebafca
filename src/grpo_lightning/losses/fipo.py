"""The clipped surrogate, each step weighted by where the policy moves the rest of the row."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.errors import require, require_range
from grpo_lightning.formula import Formula, latex_number, number
from grpo_lightning.functional.returns import returns_to_go
from grpo_lightning.losses.base import LossInputs, LossTerms, PolicyLoss, bounded_exp
from grpo_lightning.losses.clipping import clip_gain, clip_latex, clip_text


class FIPOLoss(PolicyLoss):
    """``-f min(rho A, clip(rho, 1 - epsilon_low, 1 + epsilon_high) A)`` a step, with ``f = clip(exp(F), low, 1 + influence)``
    and ``F_t = sum_(s >= t) gamma^(s - t) log rho_s`` over the row's trainable steps from this one on.

    ``F`` discounts with ``gamma = 2^(-1 / half_life)`` and leaves out steps with ``rho > dual_clip``; distances count
    trainable steps only. ``low`` is 1 with ``high_only`` and ``1 - influence`` without. ``F`` does not know the advantage's
    sign: a step before a part of the row that has become likelier weighs more, with ``A > 0`` and with ``A < 0``. Only a
    step with ``A < 0`` and ``rho > safety`` has its weight held in [0.8, 1]. ``f`` carries no gradient. Where ``A < 0`` and
    ``rho > dual_clip`` the surrogate is ``-dual_clip A`` without gradient, so that a step which says nothing about the future
    does not move either. Where the policy is still the old one all weights are 1. A step of advantage 0 has term 0 and
    gradient 0. Terms are normalised by nothing.

    The numbers are those of the authors' run with a model of 32B parameters; its code also drops every row with more than
    one step at the dual clip, from the count too, which is left out here.

    Source: Ma et al., arXiv 2603.19835 (FIPO), and the authors' code for ``safety`` and its range.

    Step metrics: ``ratio`` (``rho``); ``influence`` (``f``); ``clip_fraction_low`` and ``clip_fraction_high`` (1 where a
    bound has taken the gradient); ``clip_fraction_dual`` (1 where the dual clip has).

    Args:
        half_life: Steps after which a step's part in ``F`` is halved; above 0.
        influence: How far the weight may leave 1; from 0 to 1.
        high_only: Let the weight only grow.
        safety: Ratio above which a step of negative advantage is not magnified; at least 1.
        dual_clip: Ratio above which a step says nothing about the future and, with negative advantage, has no gradient;
            above ``1 + epsilon_high``.
        epsilon_low: How far the ratio may fall below 1, from 0 to 1.
        epsilon_high: How far it may rise above 1; not negative.

    Example:
        >>> import torch
        >>> from grpo_lightning.losses.fipo import FIPOLoss, LossInputs
        >>> lp, old, a = torch.tensor([-1.0, -1.0]), torch.tensor([-1.0, -1.1]), torch.tensor([1.0, 1.0])
        >>> inputs = LossInputs(lp, old, old, a, torch.tensor([0, 0]), torch.tensor([2]), torch.tensor([0]))
        >>> influence = FIPOLoss(half_life=1.0)(inputs).step_metrics["influence"]  # exp(0.1 / 2) and exp(0.1)
        >>> [round(weight, 3) for weight in influence.tolist()]
        [1.051, 1.105]
    """

    name = "fipo"
    scope = "step"
    differs: ClassVar[Mapping[str, str]] = {
        "the authors' code": "drops rows with more than one step at the dual clip from the loss and from its count.",
        "ms-swift": "no dual clip and no left-out steps unless its delta is set; safety is 4.",
    }

    def __init__(
        self,
        *,
        half_life: float = 32.0,
        influence: float = 0.2,
        high_only: bool = True,
        safety: float = 10.0,
        dual_clip: float = 10.0,
        epsilon_low: float = 0.2,
        epsilon_high: float = 0.28,
    ) -> None:
        require_range("half_life", half_life, low=0.0, high=float("inf"), low_open=True, high_open=True)
        require_range("influence", influence, low=0.0, high=1.0)
        require(isinstance(high_only, bool), "high_only", high_only, "is neither true nor false", "set one of them")
        require_range("safety", safety, low=1.0)
        require_range("epsilon_low", epsilon_low, low=0.0, high=1.0)
        require_range("epsilon_high", epsilon_high, low=0.0, high=float("inf"), high_open=True)
        require_range("dual_clip", dual_clip, low=1.0 + epsilon_high, low_open=True, high_open=True)
        self.half_life, self.influence, self.high_only = half_life, influence, high_only
        self.safety, self.dual_clip = safety, dual_clip
        self.epsilon_low, self.epsilon_high = epsilon_low, epsilon_high

    @override
    def __call__(self, inputs: LossInputs) -> LossTerms:
        """The terms of one micro-batch: [S], normalised by nothing."""
        advantages_S = inputs.advantages_S.to(inputs.log_probs_S.dtype)
        log_ratio_S = inputs.log_probs_S - inputs.old_log_probs_S
        ratio_S = bounded_exp(log_ratio_S)
        clipped = clip_gain(ratio_S, advantages_S, 1.0 - self.epsilon_low, 1.0 + self.epsilon_high)
        dual_S = (advantages_S < 0) & (ratio_S > self.dual_clip)
        influence_S = self._influence(inputs.row_S, log_ratio_S.detach(), advantages_S)
        metrics = {
            "ratio": ratio_S.detach(),
            "influence": influence_S,
            "clip_fraction_low": clipped.low.to(ratio_S.dtype),
            "clip_fraction_high": clipped.high.to(ratio_S.dtype),
            "clip_fraction_dual": dual_S.to(ratio_S.dtype),
        }
        return LossTerms(-(influence_S * advantages_S) * clipped.ratio.masked_fill(dual_S, self.dual_clip), metrics)

    def _influence(self, row_S: Tensor, log_ratio_S: Tensor, advantages_S: Tensor) -> Tensor:
        silent_S = log_ratio_S > math.log(self.dual_clip)
        decay = log_ratio_S.new_tensor(2.0 ** (-1.0 / self.half_life))
        future_S = returns_to_go(log_ratio_S.masked_fill(silent_S, 0.0), row_S, decay)
        low = 1.0 if self.high_only else 1.0 - self.influence
        weight_S = future_S.exp().clamp(low, 1.0 + self.influence)
        held_S = (advantages_S < 0) & (log_ratio_S > math.log(self.safety))
        return torch.where(held_S, weight_S.clamp(0.8, 1.0), weight_S)

    @override
    def formula(self) -> Formula:
        """``l_it``, with the object's numbers."""
        low, high = 1.0 - self.epsilon_low, 1.0 + self.epsilon_high
        least, most = 1.0 if self.high_only else 1.0 - self.influence, 1.0 + self.influence
        clipped = clip_latex(r"\rho_{i,t}", "A_{i,t}", low, high)
        gamma = 2.0 ** (-1.0 / self.half_life)
        return Formula(
            text=f"l_it = -f_it {clip_text('rho_it', 'A_it', low, high)}, "
            f"f_it = clip(exp(sum_(s >= t) {number(gamma)}^(s - t) log rho_is), {number(least)}, {number(most)})",
            latex=rf"\ell_{{i,t}} = -f_{{i,t}} {clipped},\quad "
            rf"f_{{i,t}} = \operatorname{{clip}}\Big(e^{{\sum_{{s \ge t}} {latex_number(gamma)}^{{s - t}} \log\rho_{{i,s}}}}, "
            rf"{latex_number(least)}, {latex_number(most)}\Big)",
            symbols={
                "f_it": f"without gradient; steps with rho > {number(self.dual_clip)} are left out of the sum, and where A < 0 "
                f"and rho > {number(self.safety)} it is held in [0.8, 1]",
                "rho_it where A < 0": f"held at {number(self.dual_clip)} at most",
            },
            sources=("Ma et al., arXiv 2603.19835",),
        )
