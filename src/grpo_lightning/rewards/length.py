"""A soft limit on length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from typing_extensions import override

from grpo_lightning.errors import require, require_range
from grpo_lightning.rewards.base import Reward
from grpo_lightning.types import Turn


class Length(Reward):
    """0 up to length L - b, then -(l - (L - b)) / b, and -1 from L on: the soft punishment of overlong answers.

    l is what the policy wrote in all its turns, L is ``maximum`` and b is ``buffer``. With a buffer of 0 it is 0 up to
    L itself and -1 above it. The entry's weight is the size of the punishment.

    Source: Yu et al., DAPO, arXiv 2503.14476.

    Args:
        maximum: L, the length from which the punishment is full.
        buffer: b, over how much length the punishment grows.
        unit: What is counted: steps of the policy, words (separated by white space) or characters.

    Example:
        >>> Length(maximum=10, buffer=4).score(lengths=[6, 8, 10, 99], turns=[[], [], [], []])
        [0.0, -0.5, -1.0, -1.0]
    """

    name = "length"
    example: ClassVar[Mapping[str, Any]] = {"maximum": 10, "buffer": 4}

    def __init__(
        self, *, maximum: int, buffer: int = 0, unit: Literal["steps", "words", "characters"] = "steps"
    ) -> None:
        require_range("maximum", maximum, low=1)
        require_range("buffer", buffer, low=0, high=maximum)
        require(unit in ("steps", "words", "characters"), "unit", unit, "is no unit", "set steps, words or characters")
        self.maximum, self.buffer, self.unit = maximum, buffer, unit

    @override
    def score(self, *, lengths: Sequence[int], turns: Sequence[Sequence[Turn]]) -> list[float]:
        """One score a row, between -1 and 0."""
        if self.unit == "words":
            lengths = [sum(len(turn.text.split()) for turn in row) for row in turns]
        elif self.unit == "characters":
            lengths = [sum(len(turn.text) for turn in row) for row in turns]
        return [self._score(length) for length in lengths]

    def _score(self, length: int) -> float:
        free = self.maximum - self.buffer
        if length <= free:
            return 0.0
        if length > self.maximum:
            return -1.0
        return (free - length) / self.buffer
