"""The clipped surrogate without some of the steps that make the entropy fall."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor
from typing_extensions import override

from grpo_lightning.errors import require_range
from grpo_lightning.formula import Formula, number
from grpo_lightning.functional.covariance import covariances
from grpo_lightning.functional.share import share
from grpo_lightning.losses.base import LossInputs, LossTerms, PolicyLoss, bounded_exp
from grpo_lightning.losses.clipping import Clipped, clip_gain, clip_latex, clip_text
from grpo_lightning.losses.planned import marks, planned
from grpo_lightning.steps import UpdateSteps


class ClipCovLoss(PolicyLoss):
    """``0`` at chosen steps, ``-min(rho A, clip(rho, 1 - epsilon_low, 1 + epsilon_high) A)`` at all others.

    A step's covariance is ``c = (A - mean A) (log pi_theta - mean log pi_theta)``, with means over the ``T`` trainable
    steps of the whole update on all ranks. Candidates are the steps with ``cov_low < c < cov_high`` that the clipping has
    not taken the gradient of. ``max(1, floor(fraction T))`` candidates are chosen uniformly, by the update's own draws, so
    that ranks, micro-batches and packing do not change the choice; all of them where there are fewer. Without candidates
    (one step, equal advantages) nothing is chosen and the loss is the clipped one. A step of advantage 0 has term 0 and
    gradient 0. Terms are normalised by nothing; chosen steps stay in every count.

    Source: Cui et al., arXiv 2505.22617 (Clip-Cov), and the authors' code, which has the bounds 1 and 5.

    Step metrics: ``ratio`` (``rho``); ``clip_fraction_low`` and ``clip_fraction_high`` (1 where a bound has taken the
    gradient); ``clip_fraction_cov`` (1 at chosen steps).

    Args:
        fraction: Share of the update's steps to choose, above 0 and at most 1.
        cov_low: Candidates have a covariance above it.
        cov_high: Candidates have a covariance below it; above ``cov_low``.
        epsilon_low: How far the ratio may fall below 1, from 0 to 1.
        epsilon_high: How far it may rise above 1; not negative.

    Example:
        >>> import torch
        >>> from grpo_lightning.losses.clip_cov import ClipCovLoss, LossInputs, UpdateSteps
        >>> lp, a, row = torch.tensor([-9.0, -1.0]).double(), torch.tensor([-1.0, 1.0]).double(), torch.tensor([0, 1])
        >>> plan = ClipCovLoss().plan(UpdateSteps(lp, lp, lp, a, row, torch.tensor([1, 1]), row, torch.tensor([0.7, 0.2])))
        >>> ClipCovLoss()(LossInputs(lp, lp, lp, a, row, torch.tensor([1, 1]), row, plan_S=plan)).terms.tolist()
        [1.0, 0.0]
    """

    name = "clip_cov"
    scope = "update"
    differs: ClassVar[Mapping[str, str]] = {
        "verl": "means, covariances and the number of chosen steps are those of each micro-batch, at least one step in each, "
        "drawn by a generator without a seed of its own: the gradient changes with the micro-batches.",
    }

    def __init__(
        self,
        *,
        fraction: float = 2e-4,
        cov_low: float = 1.0,
        cov_high: float = 5.0,
        epsilon_low: float = 0.2,
        epsilon_high: float = 0.2,
    ) -> None:
        require_range("fraction", fraction, low=0.0, high=1.0, low_open=True)
        require_range("cov_low", cov_low, low_open=True, high_open=True)
        require_range("cov_high", cov_high, low=cov_low, low_open=True)
        require_range("epsilon_low", epsilon_low, low=0.0, high=1.0)
        require_range("epsilon_high", epsilon_high, low=0.0, high=float("inf"), high_open=True)
        self.fraction, self.cov_low, self.cov_high = fraction, cov_low, cov_high
        self.epsilon_low, self.epsilon_high = epsilon_low, epsilon_high

    @override
    def plan(self, update: UpdateSteps) -> Tensor:
        """[S] float64: 1 at chosen steps."""
        covariance_S = covariances(update.advantages_S, update.log_probs_S)
        ratio_S = bounded_exp(update.log_probs_S - update.old_log_probs_S)
        clipped = self._clipped(ratio_S, update.advantages_S)
        inside_S = (covariance_S > self.cov_low) & (covariance_S < self.cov_high)
        candidates = (inside_S & ~clipped.low & ~clipped.high).nonzero().squeeze(1)
        order = update.uniform_S[candidates].argsort(stable=True)
        count = max(1, share(self.fraction, covariance_S.shape[0]))
        return marks(candidates[order[:count]], covariance_S)

    @override
    def __call__(self, inputs: LossInputs) -> LossTerms:
        """The terms of one micro-batch: [S], normalised by nothing."""
        chosen_S = planned(inputs, self.name)
        advantages_S = inputs.advantages_S.to(inputs.log_probs_S.dtype)
        ratio_S = bounded_exp(inputs.log_probs_S - inputs.old_log_probs_S)
        clipped = self._clipped(ratio_S, advantages_S)
        metrics = {
            "ratio": ratio_S.detach(),
            "clip_fraction_low": clipped.low.to(ratio_S.dtype),
            "clip_fraction_high": clipped.high.to(ratio_S.dtype),
            "clip_fraction_cov": chosen_S.to(ratio_S.dtype),
        }
        return LossTerms((-advantages_S * clipped.ratio).masked_fill(chosen_S, 0.0), metrics)

    def _clipped(self, ratio_S: Tensor, advantages_S: Tensor) -> Clipped:
        return clip_gain(ratio_S, advantages_S, 1.0 - self.epsilon_low, 1.0 + self.epsilon_high)

    @override
    def formula(self) -> Formula:
        """``l_it``, with the object's numbers."""
        low, high = 1.0 - self.epsilon_low, 1.0 + self.epsilon_high
        clipped = clip_latex(r"\rho_{it}", "A_{it}", low, high)
        between = f"{number(self.cov_low)} < c_it < {number(self.cov_high)}"
        return Formula(
            text=f"l_it = 0 if (i, t) in D else -{clip_text('rho_it', 'A_it', low, high)}",
            latex=rf"\ell_{{it}} = -\mathbb{{1}}[(i,t) \notin D]\,{clipped}",
            symbols={
                "D": f"max(1, floor({number(self.fraction)} T)) steps of the update, drawn uniformly from those that "
                f"are not clipped and have {between}",
                "c_it": "(A_it - mean A) (log pi_it - mean log pi), means over the update's T steps",
            },
            sources=("Cui et al., arXiv 2505.22617",),
        )
