"""Rewards relative to their group's mean (MaxRL)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.advantages.base import Advantage
from grpo_lightning.errors import RewardError
from grpo_lightning.formula import Formula
from grpo_lightning.functional.groups import Groups
from grpo_lightning.types import RolloutTable


class MaxRL(Advantage):
    """MaxRL's advantage, ``A_i = (r_i - mean_g) / mean_g``, for rewards that are not negative.

    For rewards of 0 and 1 of which a share ``p`` of the group's is right, a right row has ``(1 - p) / p`` and a wrong one
    -1: the mean over the group of ``A_i`` times the gradient of the log-probability is the mean over right rows of that
    gradient, less a term of mean 0: an estimate of the gradient of the log of the chance to be right, not of the chance.
    Between -1 and ``G - 1``; a group's advantages add up to 0. Multiplying a group's rewards by a constant changes nothing;
    adding one does. A group whose mean is 0, of one, or of equal rewards gets 0.

    Source: Tajwar et al., arXiv 2602.02710, for rewards of 0 and 1; other rewards are used as the paper's would be.

    Raises:
        RewardError: When called, for a negative reward, naming the row.

    Example:
        >>> from grpo_lightning.advantages.maxrl import MaxRL
        >>> from grpo_lightning.types import RolloutTable
        >>> MaxRL()(RolloutTable.of([1.0, 0.0, 0.0, 0.0], groups=[0, 0, 0, 0])).tolist()
        [3.0, -1.0, -1.0, -1.0]
    """

    name = "maxrl"
    takes_rewards = "non_negative"
    under_scale = "invariant"
    takes_penalty = False
    differs: ClassVar[Mapping[str, str]] = {
        "MaxRL's code": "Divides by mean_g + 1e-6; a group of one gets its raw reward over 1e-6; negative rewards pass.",
    }

    @override
    def estimate(self, rewards_R: Tensor, groups: Groups, table: RolloutTable) -> Tensor:
        negative = (rewards_R < 0).nonzero().squeeze(1)
        if negative.numel() > 0:
            row = int(negative[0])
            raise RewardError(
                f"advantage 'maxrl' takes rewards that are not negative, and member {int(table.member_R[row])} of group "
                f"{int(table.group_R[row])} has {float(rewards_R[row]):g}; shift the reward, or choose another advantage"
            )
        mean_R = groups.mean(rewards_R)[groups.index_R]
        return torch.where(mean_R > 0, groups.centered(rewards_R) / mean_R, 0.0)

    @override
    def formula(self) -> Formula:
        return Formula(
            text="A_i = (r_i - mean_g) / mean_g",
            latex=r"A_i = \frac{r_i - \bar r_g}{\bar r_g}",
            symbols={"mean_g": "mean reward of the row's group"},
            sources=("Tajwar et al., arXiv 2602.02710",),
        )
