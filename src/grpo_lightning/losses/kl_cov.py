"""The plain surrogate, with a penalty at the steps that make the entropy fall most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.errors import require_range
from grpo_lightning.formula import Formula, latex_number, number
from grpo_lightning.functional.covariance import covariances
from grpo_lightning.functional.share import share
from grpo_lightning.losses.base import LossInputs, LossTerms, PolicyLoss, bounded_exp
from grpo_lightning.losses.planned import marks, planned
from grpo_lightning.steps import UpdateSteps


class KLCovLoss(PolicyLoss):
    """``-rho A + beta |log pi_theta - log pi_old|`` at chosen steps, ``-rho A`` at all others; nothing is clipped.

    Chosen are the ``max(1, floor(fraction T))`` steps of largest covariance ``c = (A - mean A) (log pi_theta - mean log
    pi_theta)``, with means over the ``T`` trainable steps of the whole update on all ranks. Of equal covariances the
    steps that come first by group, member and position are chosen: with equal advantages every ``c`` is 0 and the first
    steps are. Where the policy is still the old one the penalty is 0 and has no gradient, so the loss is REINFORCE's there.
    A chosen step has its penalty whatever its advantage is; any other step of advantage 0 has term 0 and gradient 0. Terms
    are normalised by nothing.

    Source: Cui et al., arXiv 2505.22617 (KL-Cov); the paper takes a fraction of 2e-3 for a model of 7B parameters and
    2e-4 for one of 32B, and beta 1.

    Step metrics: ``ratio`` (``rho``); ``penalised_fraction`` (1 at chosen steps).

    Args:
        fraction: Share of the update's steps to choose, above 0 and at most 1.
        beta: Weight of the penalty; not negative.

    Example:
        >>> import torch
        >>> from grpo_lightning.losses.kl_cov import KLCovLoss, LossInputs, UpdateSteps
        >>> lp, a, row = torch.tensor([-9.0, -1.0]).double(), torch.tensor([-1.0, 1.0]).double(), torch.tensor([0, 1])
        >>> plan = KLCovLoss().plan(UpdateSteps(lp, lp, lp, a, row, torch.tensor([1, 1]), row, torch.tensor([0.7, 0.2])))
        >>> KLCovLoss()(LossInputs(lp, lp, lp, a, row, torch.tensor([1, 1]), row, plan_S=plan)).terms.tolist(), plan.tolist()
        ([1.0, -1.0], [1.0, 0.0])
    """

    name = "kl_cov"
    scope = "update"
    runs_silent = True
    differs: ClassVar[Mapping[str, str]] = {
        "verl": "means, covariances and the number of chosen steps are those of each micro-batch, at least one step in each: "
        "the gradient changes with the micro-batches; its configuration sets beta to 0.1.",
        "SkyRL": "its example sets the fraction to 0.2.",
    }

    def __init__(self, *, fraction: float = 2e-4, beta: float = 1.0) -> None:
        require_range("fraction", fraction, low=0.0, high=1.0, low_open=True)
        require_range("beta", beta, low=0.0, high=float("inf"), high_open=True)
        self.fraction, self.beta = fraction, beta

    @override
    def plan(self, update: UpdateSteps) -> Tensor:
        """[S] float64: 1 at chosen steps."""
        covariance_S = covariances(update.advantages_S, update.log_probs_S)
        count = max(1, share(self.fraction, covariance_S.shape[0]))
        order = covariance_S.argsort(descending=True, stable=True)
        return marks(order[:count], covariance_S)

    @override
    def __call__(self, inputs: LossInputs) -> LossTerms:
        """The terms of one micro-batch: [S], normalised by nothing."""
        chosen_S = planned(inputs, self.name)
        log_ratio_S = inputs.log_probs_S - inputs.old_log_probs_S
        ratio_S = bounded_exp(log_ratio_S)
        plain_S = -inputs.advantages_S.to(ratio_S.dtype) * ratio_S
        terms_S = torch.where(chosen_S, plain_S + self.beta * log_ratio_S.abs(), plain_S)
        metrics = {"ratio": ratio_S.detach(), "penalised_fraction": chosen_S.to(ratio_S.dtype)}
        return LossTerms(terms_S, metrics)

    @override
    def formula(self) -> Formula:
        """``l_it``, with the object's numbers."""
        fraction = self.fraction
        beta = "" if self.beta == 1 else f"{number(self.beta)} "
        latex_beta = "" if self.beta == 1 else rf"{latex_number(self.beta)}\,"
        return Formula(
            text=f"l_it = -rho_it A_it + {beta}|log rho_it| [(i, t) in D]",
            latex=rf"\ell_{{it}} = -\rho_{{it}} A_{{it}} + {latex_beta}\mathbb{{1}}[(i,t) \in D]\,"
            r"\left|\log\rho_{it}\right|",
            symbols={
                "D": f"the max(1, floor({number(fraction)} T)) steps of the update with the largest c_it",
                "c_it": "(A_it - mean A) (log pi_it - mean log pi), means over the update's T steps",
            },
            sources=("Cui et al., arXiv 2505.22617",),
        )
