"""Policy gradient with a trust region of total variation around the policy that sampled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor
from typing_extensions import override

from grpo_lightning.errors import require, require_range
from grpo_lightning.formula import Formula, latex_number, number
from grpo_lightning.losses.base import LossInputs, LossTerms, PolicyLoss
from grpo_lightning.losses.capped_ratio import capped_ratio, require_cap


class DPPOTVLoss(PolicyLoss):
    """``-M min(rho_mu, cap) A + log_ratio_penalty (log rho_mu)^2`` a step, ``rho_mu = pi_theta / mu``, the gradient of the
    first part ``-M min(rho_mu, cap) A grad log pi_theta``.

    ``mu`` is the policy that sampled and ``M`` the trust region: 0 where ``A > 0`` and ``pi_theta - mu > delta_high``, or
    ``A < 0`` and ``mu - pi_theta > delta_low``, of the sampled action; 1 elsewhere. ``pi_theta - mu`` bounds what the action
    adds to the total variation between the two, however rare it is, where a ratio's range holds back rare actions most.
    With ``two_sided`` a step leaves the region on either side, whatever the sign of its advantage. The ratio is bounded by
    ``cap`` and its gradient goes on there. Log-probabilities above 0, which only rounding makes, count as 0 in the region.
    A step of advantage 0 has only the penalty. Terms are normalised by nothing; masked steps stay in every count. A
    correction would weigh twice.

    ``dppo_tv(log_ratio_penalty=1e-3)`` is the default loss of prime-rl; its earlier one is ``two_sided=True`` as well.

    Source: Qi, Zhou et al., arXiv 2602.04879 (DPPO, binary total variation); the penalty is that of Kimi K2.5, arXiv
    2602.02276.

    Step metrics: ``behaviour_ratio`` (``rho_mu``, not capped); ``masked_fraction_low`` and ``masked_fraction_high`` (1 where
    the lower or the upper side of the region has masked the step).

    Args:
        delta_low: How far the probability may fall; from 0 to 1.
        delta_high: How far it may rise; from 0 to 1.
        cap: Largest ratio, above 0; ``None`` for none, as in the paper.
        two_sided: Mask on both sides, whatever the sign of the advantage.
        log_ratio_penalty: Weight of the squared log-ratio, over masked steps too; not negative.

    Example:
        >>> import torch
        >>> from grpo_lightning.losses.dppo_tv import DPPOTVLoss, LossInputs
        >>> lp, mu = torch.tensor([0.9, 0.25, 0.25]).log(), torch.tensor([0.5, 0.5, 0.125]).log()
        >>> a, row, n = torch.tensor([1.0, -1.0, 1.0]), torch.zeros(3, dtype=torch.int64), torch.tensor([3])
        >>> DPPOTVLoss()(LossInputs(lp, lp, mu, a, row, n, torch.tensor([0]))).terms.abs().tolist()
        [0.0, 0.0, 2.0]
    """

    name = "dppo_tv"
    scope = "step"
    weighs_sampler = True
    differs: ClassVar[Mapping[str, str]] = {
        "verl": "the ratio is always capped, at its dual-clip setting; the value is that of -M min(rho, cap) A log pi_theta, "
        "with the same gradient.",
        "prime-rl": "the default is log_ratio_penalty=1e-3.",
    }

    def __init__(
        self,
        *,
        delta_low: float = 0.2,
        delta_high: float = 0.2,
        cap: float | None = None,
        two_sided: bool = False,
        log_ratio_penalty: float = 0.0,
    ) -> None:
        require_range("delta_low", delta_low, low=0.0, high=1.0)
        require_range("delta_high", delta_high, low=0.0, high=1.0)
        require_cap(cap)
        require(isinstance(two_sided, bool), "two_sided", two_sided, "is neither true nor false", "set one of them")
        require_range("log_ratio_penalty", log_ratio_penalty, low=0.0, high=float("inf"), high_open=True)
        self.delta_low, self.delta_high, self.cap = delta_low, delta_high, cap
        self.two_sided, self.log_ratio_penalty = two_sided, log_ratio_penalty
        self.runs_silent = log_ratio_penalty > 0

    @override
    def __call__(self, inputs: LossInputs) -> LossTerms:
        """The terms of one micro-batch: [S], normalised by nothing."""
        advantages_S = inputs.advantages_S.to(inputs.log_probs_S.dtype)
        log_ratio_S = inputs.log_probs_S - inputs.behaviour_log_probs_S
        low_S, high_S = self._outside(inputs, advantages_S)
        terms_S = (-advantages_S * capped_ratio(log_ratio_S, self.cap)).masked_fill(low_S | high_S, 0.0)
        if self.log_ratio_penalty > 0:
            terms_S = terms_S + self.log_ratio_penalty * log_ratio_S**2
        metrics = {
            "behaviour_ratio": capped_ratio(log_ratio_S, None).detach(),
            "masked_fraction_low": low_S.to(terms_S.dtype),
            "masked_fraction_high": high_S.to(terms_S.dtype),
        }
        return LossTerms(terms_S, metrics)

    def _outside(self, inputs: LossInputs, advantages_S: Tensor) -> tuple[Tensor, Tensor]:
        current_S = inputs.log_probs_S.detach().clamp(max=0).exp()
        moved_S = current_S - inputs.behaviour_log_probs_S.clamp(max=0).exp()
        low_S, high_S = moved_S < -self.delta_low, moved_S > self.delta_high
        if self.two_sided:
            return low_S, high_S
        return low_S & (advantages_S < 0), high_S & (advantages_S > 0)

    @override
    def formula(self) -> Formula:
        """``l_it``, with the object's numbers."""
        low, high, weight = self.delta_low, self.delta_high, self.log_ratio_penalty
        ratio = "rho_mu_it" if self.cap is None else f"min(rho_mu_it, {number(self.cap)})"
        latex = r"\rho^\mu_{i,t}" if self.cap is None else rf"\min(\rho^\mu_{{i,t}}, {latex_number(self.cap)})"
        penalty = f" + {number(weight)} (log rho_mu_it)^2" if weight > 0 else ""
        latex_penalty = rf" + {latex_number(weight)}\,(\log\rho^\mu_{{i,t}})^2" if weight > 0 else ""
        fell, rose = f"mu - pi_theta > {number(low)}", f"pi_theta - mu > {number(high)}"
        region = f"{rose} or {fell}" if self.two_sided else f"A_it > 0 and {rose}, or A_it < 0 and {fell}"
        return Formula(
            text=f"l_it = -M_it {ratio} A_it{penalty}, rho_mu_it = pi_theta / mu",
            latex=rf"\ell_{{i,t}} = -M_{{i,t}}\,{latex}\,A_{{i,t}}{latex_penalty},\quad "
            rf"\rho^\mu_{{i,t}} = \frac{{\pi_\theta}}{{\mu}}",
            symbols={"mu": "policy that sampled", "M_it": f"0 if {region}; else 1"},
            sources=("Qi, Zhou et al., arXiv 2602.04879", *(("Kimi K2.5, arXiv 2602.02276",) if weight > 0 else ())),
        )
