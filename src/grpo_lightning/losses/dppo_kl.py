"""Policy gradient with a trust region of binary KL around the policy that sampled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.errors import require_range
from grpo_lightning.formula import Formula, latex_number, number
from grpo_lightning.losses.base import LossInputs, LossTerms, PolicyLoss
from grpo_lightning.losses.capped_ratio import capped_ratio, require_cap


class DPPOKLLoss(PolicyLoss):
    """``-M min(rho_mu, cap) A`` a step, ``rho_mu = pi_theta / mu``, with gradient ``-M min(rho_mu, cap) A grad log pi_theta``.

    ``mu`` is the policy that sampled and ``M`` the trust region: 0 where ``A > 0``, ``pi_theta > mu`` and ``d > delta_high``,
    or ``A < 0``, ``pi_theta < mu`` and ``d > delta_low``; 1 elsewhere. ``d = mu log(mu / pi_theta) + (1 - mu) log((1 - mu) /
    (1 - pi_theta))`` is the KL from ``mu`` to ``pi_theta`` once every action but the sampled one is taken for one, which is
    never above the KL between the policies. It has a meaning for discrete actions only. Where ``pi_theta`` is 1 and ``mu``
    is not, ``d`` is infinite. Log-probabilities above 0, which only rounding makes, count as 0 in the region. The ratio is
    bounded by ``cap`` and its gradient goes on there. A step of advantage 0 has term 0 and gradient 0. Terms are
    normalised by nothing; masked steps stay in every count. A correction would weigh twice.

    Source: Qi, Zhou et al., arXiv 2602.04879 (DPPO, binary KL).

    Step metrics: ``behaviour_ratio`` (``rho_mu``, not capped); ``masked_fraction_low`` and ``masked_fraction_high`` (1 where
    the lower or the upper side of the region has masked the step).

    Args:
        delta_low: Largest ``d`` of a step of negative advantage whose probability has fallen, in nats; not negative.
        delta_high: Largest ``d`` of a step of positive advantage whose probability has risen; not negative.
        cap: Largest ratio, above 0; ``None`` for none, as in the paper.

    Example:
        >>> import torch
        >>> from grpo_lightning.losses.dppo_kl import DPPOKLLoss, LossInputs
        >>> lp, mu = torch.tensor([0.9, 0.25, 0.25]).log(), torch.tensor([0.5, 0.5, 0.125]).log()
        >>> a, row, n = torch.tensor([1.0, -1.0, 1.0]), torch.zeros(3, dtype=torch.int64), torch.tensor([3])
        >>> DPPOKLLoss()(LossInputs(lp, lp, mu, a, row, n, torch.tensor([0]))).terms.abs().tolist()
        [0.0, 0.0, 2.0]
    """

    name = "dppo_kl"
    scope = "step"
    weighs_sampler = True
    differs: ClassVar[Mapping[str, str]] = {
        "verl": "the ratio is always capped, at its dual-clip setting; the value is that of -M min(rho, cap) A log pi_theta, "
        "with the same gradient; 1e-8 is added to both 1 - mu and 1 - pi_theta.",
    }

    def __init__(self, *, delta_low: float = 0.05, delta_high: float = 0.05, cap: float | None = None) -> None:
        require_range("delta_low", delta_low, low=0.0, high=float("inf"), high_open=True)
        require_range("delta_high", delta_high, low=0.0, high=float("inf"), high_open=True)
        require_cap(cap)
        self.delta_low, self.delta_high, self.cap = delta_low, delta_high, cap

    @override
    def __call__(self, inputs: LossInputs) -> LossTerms:
        """The terms of one micro-batch: [S], normalised by nothing."""
        advantages_S = inputs.advantages_S.to(inputs.log_probs_S.dtype)
        log_ratio_S = inputs.log_probs_S - inputs.behaviour_log_probs_S
        current_S, behaviour_S = inputs.log_probs_S.detach().clamp(max=0), inputs.behaviour_log_probs_S.clamp(max=0)
        divergence_S = _binary_kl(behaviour_S, current_S)
        low_S = (advantages_S < 0) & (current_S < behaviour_S) & (divergence_S > self.delta_low)
        high_S = (advantages_S > 0) & (current_S > behaviour_S) & (divergence_S > self.delta_high)
        terms_S = (-advantages_S * capped_ratio(log_ratio_S, self.cap)).masked_fill(low_S | high_S, 0.0)
        metrics = {
            "behaviour_ratio": capped_ratio(log_ratio_S, None).detach(),
            "masked_fraction_low": low_S.to(terms_S.dtype),
            "masked_fraction_high": high_S.to(terms_S.dtype),
        }
        return LossTerms(terms_S, metrics)

    @override
    def formula(self) -> Formula:
        """``l_it``, with the object's numbers."""
        ratio = "rho_mu_it" if self.cap is None else f"min(rho_mu_it, {number(self.cap)})"
        latex = r"\rho^\mu_{i,t}" if self.cap is None else rf"\min(\rho^\mu_{{i,t}}, {latex_number(self.cap)})"
        return Formula(
            text=f"l_it = -M_it {ratio} A_it, rho_mu_it = pi_theta / mu",
            latex=rf"\ell_{{i,t}} = -M_{{i,t}}\,{latex}\,A_{{i,t}},\quad \rho^\mu_{{i,t}} = \frac{{\pi_\theta}}{{\mu}}",
            symbols={
                "mu": "policy that sampled",
                "M_it": f"0 if A_it > 0, pi_theta > mu and D_it > {number(self.delta_high)}, or A_it < 0, pi_theta < mu and "
                f"D_it > {number(self.delta_low)}; else 1",
                "D_it": "mu log(mu / pi_theta) + (1 - mu) log((1 - mu) / (1 - pi_theta))",
            },
            sources=("Qi, Zhou et al., arXiv 2602.04879",),
        )


def _binary_kl(behaviour_S: Tensor, current_S: Tensor) -> Tensor:
    """KL between the two coins of log-probability ``behaviour`` and ``current``, both at most 0."""
    other_behaviour_S, other_current_S = torch.expm1(behaviour_S).abs(), torch.expm1(current_S).abs()
    # Where mu is 1 nothing is left for the other actions: 0 log 0 is 0 there, and would be NaN in the product.
    certain_S = other_behaviour_S <= 0
    ratio_S = other_behaviour_S.masked_fill(certain_S, 1.0) / other_current_S.masked_fill(certain_S, 1.0)
    return behaviour_S.exp() * (behaviour_S - current_S) + other_behaviour_S * ratio_S.log()
