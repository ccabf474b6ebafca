"""Rewards minus the length-weighted mean of their group (OPO)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor
from typing_extensions import override

from grpo_lightning.advantages.base import Advantage
from grpo_lightning.formula import Formula
from grpo_lightning.functional.groups import Groups
from grpo_lightning.types import RolloutTable


class OPO(Advantage):
    """OPO's advantage, ``A_i = r_i - sum_j l_j r_j / sum_j l_j`` over the row's group, in units of reward.

    ``l_j`` is the number of trainable steps of row j. It stands for the squared norm of the gradient of the row's
    log-probability: then this baseline is the one of least variance. Where all rows are equally long it is the mean.
    The advantages of a group, each weighted by its length, add up to 0. Adding a constant to a group's rewards changes
    nothing; multiplying them by a constant multiplies the advantages. A group of one, or of equal rewards, gets 0.

    Source: Hao et al., arXiv 2505.23585. The method is strictly on-policy (one update a rollout), with neither KL nor
    entropy term.

    Example:
        >>> from grpo_lightning.advantages.opo import OPO
        >>> from grpo_lightning.types import RolloutTable
        >>> OPO()(RolloutTable.of([0.0, 1.0], groups=[0, 0], lengths=[1, 3])).tolist()
        [-0.75, 0.25]
    """

    name = "opo"
    under_shift = "invariant"
    under_scale = "equivariant"
    differs: ClassVar[Mapping[str, str]] = {
        "verl": "A group of one gets its raw reward; equal rewards that are not exact in binary leave rounding noise.",
    }

    @override
    def estimate(self, rewards_R: Tensor, groups: Groups, table: RolloutTable) -> Tensor:
        lengths_R = table.lengths_R.to(rewards_R.dtype)
        # From the mean, so that the products are no larger than the spread of the group.
        centered_R = groups.centered(rewards_R)
        baseline_G = groups.sum(lengths_R * centered_R) / groups.sum(lengths_R)
        return centered_R - baseline_G[groups.index_R]

    @override
    def formula(self) -> Formula:
        return Formula(
            text="A_i = r_i - sum_j l_j r_j / sum_j l_j",
            latex=r"A_i = r_i - \frac{\sum_{j \in g} l_j r_j}{\sum_{j \in g} l_j}",
            symbols={"l_j": "trainable steps of row j", "j": "rows of the group of row i"},
            sources=("Hao et al., arXiv 2505.23585",),
        )
