"""A band of lengths that are wanted."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override

from grpo_lightning.errors import require_range
from grpo_lightning.rewards.base import Reward
from grpo_lightning.types import Turn
from grpo_lightning_text.units import Unit, lengths_in, require_unit


class LengthBand(Reward):
    """``l / a`` below length a, 1 from a to b, ``(c - l) / (c - b)`` from b to c, and 0 from c on.

    l is what the policy wrote in all its turns. With ``a = 0`` it is 1 from the start, with ``c = b`` it falls at once after b.
    A soft limit on length as a punishment, DAPO's overlong shaping, is the built-in reward ``length``.

    Args:
        rises_to: a, the shortest length that is wanted.
        flat_to: b, the longest one.
        zero_from: c, the length from which the score is 0.
        unit: What is counted: steps of the policy, words (separated by white space) or characters.

    Example:
        >>> LengthBand(rises_to=4, flat_to=8, zero_from=12).score(lengths=[0, 2, 4, 8, 9, 12], turns=[[]] * 6)
        [0.0, 0.5, 1.0, 1.0, 0.75, 0.0]
    """

    name = "length_band"
    example = {"rises_to": 4, "flat_to": 8, "zero_from": 12}  # noqa: RUF012 - declared a ClassVar by the base

    def __init__(self, *, rises_to: int, flat_to: int, zero_from: int, unit: Unit = "steps") -> None:
        require_range("rises_to", rises_to, low=0)
        require_range("flat_to", flat_to, low=rises_to)
        require_range("zero_from", zero_from, low=max(flat_to, 1))
        require_unit(unit)
        self.rises_to, self.flat_to, self.zero_from, self.unit = rises_to, flat_to, zero_from, unit

    @override
    def score(self, *, lengths: Sequence[int], turns: Sequence[Sequence[Turn]]) -> list[float]:
        """One score a row, in [0, 1]."""
        return [self._score(length) for length in lengths_in(self.unit, lengths, turns)]

    def _score(self, length: int) -> float:
        if length < self.rises_to:
            return length / self.rises_to
        if length <= self.flat_to:
            return 1.0
        return max(0.0, (self.zero_from - length) / max(self.zero_from - self.flat_to, 1))
