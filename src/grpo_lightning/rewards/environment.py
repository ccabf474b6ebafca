"""Rewards that the environment gave."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override

from grpo_lightning.rewards.base import Reward
from grpo_lightning.types import Turn


class EnvironmentReward(Reward):
    """Sum over turns of the rewards that the environment gave; abstains where it gave none.

    Example:
        >>> from grpo_lightning.types import FinishReason, Turn
        >>> turns = [Turn([1], "a", FinishReason.STOP, reward=0.5), Turn([2], "b", FinishReason.STOP)]
        >>> EnvironmentReward().score(turns=[turns])
        [[0.5, None]]
    """

    name = "environment"

    @override
    def score(self, *, turns: Sequence[Sequence[Turn]]) -> list[list[float | None]]:
        """One list a row, with an entry for each turn."""
        return [[turn.reward for turn in row] for row in turns]
