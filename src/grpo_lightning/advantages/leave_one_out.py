"""Rewards minus the mean of the other members of the group (RLOO)."""

from __future__ import annotations

from torch import Tensor
from typing_extensions import override

from grpo_lightning.advantages.base import Advantage
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
        >>> LeaveOneOut().compares
        True
    """

    name = "leave_one_out"

    @override
    def estimate(self, rewards_R: Tensor, groups: Groups, table: RolloutTable) -> Tensor:
        sizes_R = groups.sizes_G[groups.index_R]
        return groups.centered(rewards_R) * sizes_R / (sizes_R - 1).clamp(min=1)
