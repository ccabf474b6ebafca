"""The plain surrogate without the steps that are furthest from the policy that sampled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.errors import require, require_range
from grpo_lightning.formula import Formula, number
from grpo_lightning.losses.base import LossInputs, LossTerms, PolicyLoss, bounded_exp
from grpo_lightning.losses.planned import marks, planned
from grpo_lightning.steps import UpdateSteps


class M2POLoss(PolicyLoss):
    """``0`` at masked steps, ``-rho_mu A`` at all others, ``rho_mu = pi_theta / mu``, so that the mean of ``(log rho_mu)^2``
    over the steps that are left is below ``threshold``.

    ``mu`` is the policy that sampled. The steps of the whole update on all ranks are sorted by ``(log rho_mu)^2``, largest
    first, and the smallest number of them that brings the mean of the rest below the threshold is masked; of equal ones
    those that come first by group, member and position. Where even the closest step is too far, all are masked. Nothing is
    clipped. A step of advantage 0 counts in the mean; its term and gradient are 0. Terms are normalised by nothing; masked
    steps stay in every count. The ratio is to ``mu``, as in the paper, whose old policy is the one that sampled: a
    correction would weigh twice.

    This is the masking that the paper states. The authors' released code does something else: it looks only at steps whose
    ratio has moved in the direction of the gain, caps their squares at the largest value for which the capped mean meets
    the budget, and uses that value as a bound of PPO's clipping. ``candidates="gain"`` takes its choice of steps, with the
    paper's mask: a step that is moving back towards ``mu`` is then never masked.

    Source: Zheng, Zhao and Chen, arXiv 2510.01161 (M2PO), threshold 0.04.

    Step metrics: ``behaviour_ratio`` (``rho_mu``); ``masked_fraction`` (1 at masked steps).

    Args:
        threshold: Bound of the mean square; above 0.
        candidates: Steps that count in the mean and may be masked: ``all``, or ``gain`` for those with ``A > 0`` and
            ``rho_mu > 1`` or ``A < 0`` and ``rho_mu < 1``.

    Example:
        >>> import torch
        >>> from grpo_lightning.losses.m2po import LossInputs, M2POLoss, UpdateSteps
        >>> lp, mu, a, row = torch.tensor([-1.0, -2.0]), torch.tensor([-1.0, -3.0]), torch.ones(2), torch.tensor([0, 0])
        >>> plan = M2POLoss().plan(UpdateSteps(lp, lp, mu, a, row, torch.tensor([2]), torch.tensor([0]), torch.rand(2)))
        >>> M2POLoss()(LossInputs(lp, lp, mu, a, row, torch.tensor([2]), torch.tensor([0]), plan_S=plan)).terms.tolist()
        [-1.0, 0.0]
    """

    name = "m2po"
    scope = "update"
    weighs_sampler = True
    differs: ClassVar[Mapping[str, str]] = {
        "the authors' code": "clips, with bounds found in each micro-batch from the steps that moved in the direction of the "
        "gain; see above.",
        "AReaL": "masks by (log pi_prox - log mu)^2 in each micro-batch, keeps at least one step, takes masked steps out of "
        "the count, and keeps PPO's clipping.",
    }

    def __init__(self, *, threshold: float = 0.04, candidates: Literal["all", "gain"] = "all") -> None:
        require_range("threshold", threshold, low=0.0, high=float("inf"), low_open=True, high_open=True)
        require(candidates in ("all", "gain"), "candidates", candidates, "is no choice", "set 'all' or 'gain'")
        self.threshold, self.candidates = threshold, candidates

    @override
    def plan(self, update: UpdateSteps) -> Tensor:
        """[S] float64: 1 at masked steps."""
        log_ratio_S = update.log_probs_S - update.behaviour_log_probs_S
        counted_S = torch.ones_like(log_ratio_S, dtype=torch.bool)
        if self.candidates == "gain":
            counted_S = log_ratio_S.sign() * update.advantages_S.sign() > 0
        counted = counted_S.nonzero().squeeze(1)
        squares = log_ratio_S[counted] ** 2
        order = squares.argsort(descending=True, stable=True)
        ascending = squares[order].flip(0)
        sizes = torch.arange(1, ascending.shape[0] + 1, device=ascending.device)
        # The mean of the smallest n grows with n: what is left is the largest n whose mean is below the threshold.
        left = int((ascending.cumsum(0) / sizes < self.threshold).sum())
        return marks(counted[order[: order.shape[0] - left]], log_ratio_S)

    @override
    def __call__(self, inputs: LossInputs) -> LossTerms:
        """The terms of one micro-batch: [S], normalised by nothing."""
        masked_S = planned(inputs, self.name)
        ratio_S = bounded_exp(inputs.log_probs_S - inputs.behaviour_log_probs_S)
        terms_S = (-inputs.advantages_S.to(ratio_S.dtype) * ratio_S).masked_fill(masked_S, 0.0)
        return LossTerms(terms_S, {"behaviour_ratio": ratio_S.detach(), "masked_fraction": masked_S.to(ratio_S.dtype)})

    @override
    def formula(self) -> Formula:
        """``l_it``, with the object's numbers."""
        which = "all steps" if self.candidates == "all" else "the steps with A_it log rho_mu_it > 0"
        return Formula(
            text="l_it = -M_it rho_mu_it A_it, rho_mu_it = pi_theta / mu",
            latex=r"\ell_{i,t} = -M_{i,t}\,\rho^\mu_{i,t} A_{i,t},\quad \rho^\mu_{i,t} = \frac{\pi_\theta}{\mu}",
            symbols={
                "mu": "policy that sampled",
                "M_it": f"0 for the fewest of {which} of the update, largest (log rho_mu_it)^2 first, without which the mean "
                f"of (log rho_mu_it)^2 over the rest of them is below {number(self.threshold)}; 1 for the others",
            },
            sources=("Zheng, Zhao and Chen, arXiv 2510.01161",),
        )
