"""Repetition as a punishment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from typing_extensions import override

from grpo_lightning.errors import require, require_range
from grpo_lightning.rewards.base import Reward
from grpo_lightning_text.answers import LONGEST_TEXT


class Repetition(Reward):
    """``-(1 - d / m)``: minus the share of a completion's m n-grams that repeat an earlier one; d of them are distinct.

    0 where nothing repeats and where there are fewer than n words or characters, close to -1 where all is one n-gram. The
    entry's weight is the size of the punishment. Only the last 20,000 characters are looked at.

    Args:
        n: Length of the n-grams.
        unit: Of what: ``words`` (separated by white space) or ``characters``.
        ignore_case: Take capital and small letters as equal.

    Example:
        >>> Repetition(n=2).score(completions=["a b c d", "a b a b a", "a"])  # ab ba ab ba: 2 of 4 repeat
        [0.0, -0.5, 0.0]
    """

    name = "repetition"

    def __init__(self, *, n: int = 3, unit: Literal["words", "characters"] = "words", ignore_case: bool = True) -> None:
        require_range("n", n, low=1, high=100)
        require(unit in ("words", "characters"), "unit", unit, "is no unit", "set words or characters")
        self.n, self.unit, self.ignore_case = n, unit, ignore_case

    @override
    def score(self, *, completions: Sequence[str]) -> list[float]:
        """One score a row, in (-1, 0]."""
        return [self._score(completion[-LONGEST_TEXT:]) for completion in completions]

    def _score(self, text: str) -> float:
        text = text.casefold() if self.ignore_case else text
        items: Sequence[str] = text.split() if self.unit == "words" else text
        count = len(items) - self.n + 1
        if count < 2:
            return 0.0
        return len({tuple(items[start : start + self.n]) for start in range(count)}) / count - 1.0
