"""Rewards as labels: the rows of a group are classified by how far the policy has moved towards them."""

from __future__ import annotations

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.errors import require_range
from grpo_lightning.formula import Formula, latex_number, number
from grpo_lightning.losses.base import LossInputs, LossTerms, PolicyLoss, bounded_exp


class REALLoss(PolicyLoss):
    """``log(1 + sum_(A_j <= 0) e^(z_j / tau)) + log(1 + sum_(A_j > 0) e^(-z_j / tau))`` a group, ``z_i`` the mean of
    ``log(pi_theta / pi_old)`` over the row's steps.

    Rows of positive advantage are the positive class, all others the negative one; the size of the advantage does not
    count. The gradient of ``z_i`` is at most ``1 / tau``. A group without both classes has term exactly 0 and no gradient.
    The rows of a group may come in any order. There is one term a group, in ascending order, normalised by nothing; the
    paper's loss is their mean over groups, which the aggregation ``prompt_mean`` makes.

    Source: Zhai et al., arXiv 2602.05630 (REAL), for rewards 0 and 1, temperature 0.5.

    Step metrics: ``ratio`` (``pi_theta / pi_old`` of the step).

    Args:
        tau: Temperature, above 0: what moves of ``z`` count as large.

    Example:
        >>> import torch
        >>> from grpo_lightning.losses.real import LossInputs, REALLoss
        >>> lp, a, row = torch.tensor([-1.0, -2.0]), torch.tensor([1.0, -1.0]), torch.tensor([0, 1])
        >>> terms = REALLoss()(LossInputs(lp, lp, lp, a, row, torch.tensor([1, 1]), torch.tensor([0, 0]))).terms
        >>> [round(term, 4) for term in terms.tolist()]
        [1.3863]
    """

    name = "real"
    scope = "group"
    aggregations = frozenset({"prompt_mean"})
    why_aggregations = "its loss is the mean over groups of one term a group"

    def __init__(self, *, tau: float = 0.5) -> None:
        require_range("tau", tau, low=0.0, high=float("inf"), low_open=True, high_open=True)
        self.tau = tau

    @override
    def __call__(self, inputs: LossInputs) -> LossTerms:
        """The terms of one micro-batch of whole groups: [number of groups, ascending], normalised by nothing."""
        log_ratio_S = inputs.log_probs_S - inputs.old_log_probs_S
        scores_R = inputs.mean_rows(log_ratio_S) / self.tau
        ids_G, group_R = torch.unique(inputs.group_R, return_inverse=True)
        positive_R = inputs.row_advantages() > 0
        negative = _softplus_of_sum(scores_R, ~positive_R, group_R, ids_G.shape[0])
        positive = _softplus_of_sum(-scores_R, positive_R, group_R, ids_G.shape[0])
        members_G = torch.zeros_like(ids_G).index_add(0, group_R, torch.ones_like(group_R))
        positives_G = torch.zeros_like(ids_G).index_add(0, group_R, positive_R.to(group_R.dtype))
        mixed_G = (positives_G > 0) & (positives_G < members_G)
        terms_G = (negative + positive).masked_fill(~mixed_G, 0.0)
        return LossTerms(terms_G, {"ratio": bounded_exp(log_ratio_S.detach())})

    @override
    def formula(self) -> Formula:
        """``l_g``, with the object's number."""
        tau = self.tau
        return Formula(
            text=f"l_g = log(1 + sum_(j in g, A_j <= 0) exp(z_j / {number(tau)})) "
            f"+ log(1 + sum_(j in g, A_j > 0) exp(-z_j / {number(tau)}))",
            latex=rf"\ell_g = \log\Big(1 + \sum_{{j \in g, A_j \le 0}} e^{{z_j / {latex_number(tau)}}}\Big) + "
            rf"\log\Big(1 + \sum_{{j \in g, A_j > 0}} e^{{-z_j / {latex_number(tau)}}}\Big)",
            symbols={
                "z_j": "mean of log(pi_theta / pi_old) over the row's steps",
                "l_g": "0 for a group without both signs",
            },
            sources=("Zhai et al., arXiv 2602.05630",),
        )


def _softplus_of_sum(values_R: Tensor, chosen_R: Tensor, group_R: Tensor, groups: int) -> Tensor:
    """[G]: ``log(1 + sum exp(value))`` over the chosen rows of each group, with all digits where the sum is tiny."""
    values, group = values_R[chosen_R], group_R[chosen_R]
    largest_G = values_R.new_zeros(groups).scatter_reduce(0, group, values.detach(), "amax")
    sums_G = values_R.new_zeros(groups).index_add(0, group, (values - largest_G[group]).exp())
    return largest_G + torch.log1p(sums_G + torch.expm1(-largest_G))
