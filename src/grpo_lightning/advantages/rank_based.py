"""Ranks inside the group instead of rewards."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.advantages.base import Advantage
from grpo_lightning.errors import require
from grpo_lightning.formula import Formula
from grpo_lightning.functional.groups import Groups
from grpo_lightning.types import RolloutTable


class RankBased(Advantage):
    """Mid-ranks, ``A_i = 2 q_i - 1`` with ``q_i = (#{j: r_j < r_i} + #{j: r_j = r_i} / 2) / (G - 1)`` over ``j != i``.

    That is the average sign of ``r_i - r_j`` over the other members: between -1 and 1, adding up to 0 in a group. Two
    rewards tie if they differ by at most ``4 * epsilon * max |r|`` of their group, ``epsilon`` of the type the rewards
    arrived in. Only the order of rewards counts: every strictly increasing change of them changes nothing, so one
    extreme reward cannot drown the others.

    With ``score="normal"`` ranks become normal scores, ``A_i = Phi^-1(((G - 1) q_i + 1/2) / G)`` minus the group's
    mean, where ``Phi`` is the standard normal distribution function: the extremes of a group count more, and the more
    so the larger the group.

    Source: no paper is followed; ``mid_rank`` is the row's Mann-Whitney statistic, scaled.

    Args:
        score: ``mid_rank`` or ``normal``.

    Example:
        >>> from grpo_lightning.advantages.rank_based import RankBased
        >>> from grpo_lightning.types import RolloutTable
        >>> RankBased()(RolloutTable.of([0.0, 90.0, 1.0], groups=[0, 0, 0])).tolist()
        [-1.0, 1.0, 0.0]
    """

    name = "rank_based"
    under_shift = "invariant"
    under_scale = "invariant"

    def __init__(self, *, score: Literal["mid_rank", "normal"] = "mid_rank") -> None:
        scores = ("mid_rank", "normal")
        require(score in scores, "score", score, "is no score", "set 'mid_rank' or 'normal'")
        self.score = score

    @override
    def estimate(self, rewards_R: Tensor, groups: Groups, table: RolloutTable) -> Tensor:
        signs_R = _sign_sums(rewards_R, groups, groups.tolerance(rewards_R, table.reward_epsilon, table.sizes_R))
        sizes_R = groups.sizes_G[groups.index_R]
        if self.score == "mid_rank":
            return signs_R / (sizes_R - 1).clamp(min=1)
        # (G - 1) q + 1/2 = (sum of signs + G) / 2
        return groups.centered(torch.special.ndtri((signs_R + sizes_R) / (2 * sizes_R)))

    @override
    def formula(self) -> Formula:
        q = "q_i = (#{j: r_j < r_i} + #{j: r_j = r_i} / 2) / (G - 1)"
        latex_q = r"q_i = \frac{\#\{j: r_j < r_i\} + \frac{1}{2} \#\{j: r_j = r_i\}}{G - 1}"
        symbols = {"q_i": "mid-rank of row i among the other rows j of its group", "G": "valid rows of the group"}
        if self.score == "mid_rank":
            return Formula(f"A_i = 2 q_i - 1, {q}", rf"A_i = 2 q_i - 1,\quad {latex_q}", symbols)
        return Formula(
            text=f"A_i = z_i - mean_g(z), z_i = Phi^-1(((G - 1) q_i + 1/2) / G), {q}",
            latex=r"A_i = z_i - \bar z_g,\quad z_i = \Phi^{-1}\Big(\frac{(G - 1) q_i + \frac{1}{2}}{G}\Big),\quad "
            + latex_q,
            symbols={**symbols, "Phi": "standard normal distribution function"},
        )


def _sign_sums(values_R: Tensor, groups: Groups, tolerance_G: Tensor) -> Tensor:
    """[R] float64: sum over the group of ``sign(x_i - x_j)``, 0 for pairs within the group's tolerance."""
    sums_R = torch.zeros_like(values_R)
    members = torch.split(groups.index_R.argsort(stable=True), groups.sizes_G.tolist())
    for rows, tolerance in zip(members, tolerance_G, strict=True):
        differences = values_R[rows, None] - values_R[rows]
        sums_R[rows] = torch.where(differences.abs() > tolerance, differences.sign(), 0.0).sum(1)
    return sums_R
