"""Rewards minus the mean of the other members of the group (RLOO)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor
from typing_extensions import override

from grpo_lightning.advantages.base import Advantage
from grpo_lightning.formula import Formula
from grpo_lightning.functional.groups import Groups
from grpo_lightning.types import RolloutTable


class LeaveOneOut(Advantage):
    """RLOO's advantage, ``A_i = r_i - mean of the others = G / (G - 1) (r_i - mean_g)``, in units of reward.

    ``G`` is the number of valid rows of the group. A baseline that leaves the row itself out is independent of what
    the row did, so the policy gradient stays unbiased. The advantages of a group add up to 0. Adding a constant to a
    group's rewards changes nothing; multiplying them by a constant multiplies the advantages.

    Source: Ahmadian et al., arXiv 2402.14740. The paper weighs the log-probability of the whole row with it and has no
    importance ratio.

    Example:
        >>> from grpo_lightning.advantages.leave_one_out import LeaveOneOut
        >>> from grpo_lightning.types import RolloutTable
        >>> LeaveOneOut()(RolloutTable.of([3.0, 0.0, 0.0], groups=[0, 0, 0])).tolist()
        [3.0, -1.5, -1.5]
    """

    name = "leave_one_out"
    under_shift = "invariant"
    under_scale = "equivariant"
    differs: ClassVar[Mapping[str, str]] = {
        "TRL": "RLOOTrainer takes the KL, summed over the row, off the reward first, and can whiten the result over the batch.",
        "verl": "A group of one gets its raw reward; equal rewards that are not exact in binary leave rounding noise.",
    }

    @override
    def estimate(self, rewards_R: Tensor, groups: Groups, table: RolloutTable) -> Tensor:
        sizes_R = groups.sizes_G[groups.index_R]
        return groups.centered(rewards_R) * sizes_R / (sizes_R - 1).clamp(min=1)

    @override
    def formula(self) -> Formula:
        return Formula(
            text="A_i = r_i - (1 / (G - 1)) sum_{j in g, j != i} r_j",
            latex=r"A_i = r_i - \frac{1}{G - 1} \sum_{j \in g,\, j \ne i} r_j",
            symbols={"g": "the group of row i", "G": "its valid rows"},
            sources=("Ahmadian et al., arXiv 2402.14740",),
        )
