"""Rewards minus their group's mean (Dr. GRPO)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor
from typing_extensions import override

from grpo_lightning.advantages.base import Advantage
from grpo_lightning.formula import Formula
from grpo_lightning.functional.groups import Groups
from grpo_lightning.types import RolloutTable


class MeanCentered(Advantage):
    """Dr. GRPO's advantage, ``A_i = r_i - mean_g``, in units of reward.

    Not dividing by the standard deviation removes the bias towards groups that are nearly all right or nearly all
    wrong. The other half of the method is in the loss: the aggregation ``constant_length``, without which the bias
    towards length remains. The advantages of a group add up to 0. Adding a constant to a group's rewards changes
    nothing; multiplying them by a constant multiplies the advantages. It is ``leave_one_out`` times ``(G - 1) / G``.

    Source: Liu et al., arXiv 2503.20783.

    Example:
        >>> from grpo_lightning.advantages.mean_centered import MeanCentered
        >>> from grpo_lightning.types import RolloutTable
        >>> MeanCentered()(RolloutTable.of([1.0, 0.0, 0.0, 0.0], groups=[0, 0, 0, 0])).tolist()
        [0.75, -0.25, -0.25, -0.25]
    """

    name = "mean_centered"
    under_shift = "invariant"
    under_scale = "equivariant"
    differs: ClassVar[Mapping[str, str]] = {
        "verl": "A group of one gets its raw reward; equal rewards that are not exact in binary leave rounding noise.",
        "NeMo-RL": "Without normalize_rewards its default baseline leaves the row out, which is leave_one_out here.",
    }

    @override
    def estimate(self, rewards_R: Tensor, groups: Groups, table: RolloutTable) -> Tensor:
        return groups.centered(rewards_R)

    @override
    def formula(self) -> Formula:
        return Formula(
            text="A_i = r_i - mean_g",
            latex=r"A_i = r_i - \bar r_g",
            symbols={"mean_g": "mean reward of the row's group"},
            sources=("Liu et al., arXiv 2503.20783",),
        )
