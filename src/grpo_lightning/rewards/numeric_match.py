"""Equality of numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar

from typing_extensions import override

from grpo_lightning.errors import DataError, require_range
from grpo_lightning.rewards.base import Reward
from grpo_lightning.rewards.extraction import compile_pattern, last_capture

_UNSIGNED = r"(?:(?:(?<!\d)\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|(?<!\d)\.\d+)(?:[eE][+-]?\d{1,3}(?!\d))?"
# A minus after a digit, a letter or a closing bracket subtracts; elsewhere it is a sign.
_NUMBER = re.compile(rf"(?P<sign>(?<![\w.)\]}}])[-\u2212])?(?P<top>{_UNSIGNED})(?:\s?/\s?(?P<bottom>{_UNSIGNED}))?")


def last_number(text: str) -> Fraction | None:
    """The last number in ``text``, exactly; ``None`` if there is none.

    Understands signs, decimals, exponents of up to three digits, thousands separated by commas, and fractions ``a/b``.

    Example:
        >>> last_number("so 3/4 of -1,200 is -900.")
        Fraction(-900, 1)
    """
    numbers = list(_NUMBER.finditer(text))
    if not numbers:
        return None
    found = numbers[-1]
    try:
        value = Fraction(found["top"].replace(",", ""))
        if found["bottom"] is not None:
            value /= Fraction(found["bottom"].replace(",", ""))
    except (ValueError, ZeroDivisionError):  # more digits than Python converts, or a division by zero
        return None
    return -value if found["sign"] else value


class NumericMatch(Reward):
    """1 if the last number written is within a tolerance of a column's number, else 0; abstains where that is ``None``.

    Numbers are compared exactly, as the decimals and fractions that they are written as. Text in the column counts by
    the last number in it.

    Args:
        column: Column that holds the right number, as a number or as text.
        tolerance: Largest absolute difference that is still right.
        pattern: Regular expression with one group: only what its last match captured is searched for a number. By
            default the whole completion is.

    Example:
        >>> NumericMatch().score(completions=["It is 1,024.", "no idea", "2/4"], answer=[1024, 7, 0.5])
        [1.0, 0.0, 1.0]
    """

    name = "numeric_match"
    example_columns: ClassVar[Mapping[str, Sequence[Any]]] = {"answer": ["7", 12, None]}

    def __init__(self, *, column: str = "answer", tolerance: float = 0.0, pattern: str | None = None) -> None:
        require_range("tolerance", tolerance, low=0, high_open=True)
        self.column, self.tolerance = column, tolerance
        self.pattern = None if pattern is None else compile_pattern(pattern, groups=1)

    @override
    def columns(self) -> list[str]:
        return [self.column]

    @override
    def score(self, *, completions: Sequence[str], **columns: Sequence[Any]) -> list[float | None]:
        """One score a row: 1, 0, or ``None`` where there is no right number to compare with.

        Raises:
            DataError: If the column holds something without a number in it.
        """
        expected = columns[self.column]
        return [self._score(completion, right) for completion, right in zip(completions, expected, strict=True)]

    @override
    def answer(self, completion: str) -> str:
        """The number found, in lowest terms (``0.50`` is ``1/2``); empty where there is none."""
        found = self._found(completion)
        return "" if found is None else str(found)

    def _score(self, completion: str, right: Any) -> float | None:
        if right is None:
            return None
        expected = last_number(str(right))
        if expected is None:
            raise DataError(
                "column", right, f"in column {self.column!r} holds no number", "mend it, or name another column"
            )
        found = self._found(completion)
        return float(found is not None and abs(found - expected) <= Fraction(str(self.tolerance)))

    def _found(self, completion: str) -> Fraction | None:
        part = completion if self.pattern is None else last_capture(self.pattern, completion)
        return None if part is None else last_number(part)
