"""Rewards that compare a completion with what a column says is right."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from grpo_lightning.rewards.base import Reward
from grpo_lightning.rewards.extraction import compile_pattern


class ColumnReward(Reward):
    """One score a row by :meth:`compare`; ``None`` where the column is ``None``.

    Args:
        column: The column.
    """

    def __init__(self, *, column: str) -> None:
        self.column = column

    @override
    def columns(self) -> list[str]:
        return [self.column]

    @override
    def score(self, *, completions: Sequence[str], **columns: Sequence[Any]) -> list[float | None]:
        """One score a row, in [0, 1], or ``None`` where nothing is right.

        Raises:
            DataError: If the column holds nothing that a completion can be compared with.
        """
        return [
            None if right is None else self.compare(completion, right)
            for completion, right in zip(completions, columns[self.column], strict=True)
        ]

    @abstractmethod
    def compare(self, completion: str, right: Any) -> float:
        """The score of one completion, in [0, 1].

        Raises:
            DataError: If ``right`` is nothing that it can be compared with.
        """


def compiled(pattern: str | None) -> re.Pattern[str] | None:
    """The compiled form of an argument ``pattern``, which may be left out."""
    return None if pattern is None else compile_pattern(pattern, groups=1)
