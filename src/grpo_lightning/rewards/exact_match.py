"""Equality with a known answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from grpo_lightning.rewards.base import Reward
from grpo_lightning.rewards.extraction import compile_pattern, last_capture


class ExactMatch(Reward):
    """1 if the answer is the text of a column, else 0; abstains where the column is ``None``.

    Numbers in the column are compared as text, whole ones without a decimal point. A list in the column holds several
    right answers.

    Args:
        column: Column that holds the right answer.
        ignore_case: Take capital and small letters as equal.
        strip: Leave out white space around both sides.
        pattern: Regular expression with one group: the answer is what its last match captured, and a completion without
            a match scores 0. By default the whole completion is the answer.

    Example:
        >>> reward = ExactMatch(pattern=r"<answer>(.*?)</answer>")
        >>> reward.score(completions=["<answer> 7 </answer>", "7"], answer=["7", "7"])
        [1.0, 0.0]
    """

    name = "exact_match"
    example_columns: ClassVar[Mapping[str, Sequence[Any]]] = {"answer": ["7", 12, ["no", "a b a"], None]}

    def __init__(
        self, *, column: str = "answer", ignore_case: bool = False, strip: bool = True, pattern: str | None = None
    ) -> None:
        self.column, self.ignore_case, self.strip = column, ignore_case, strip
        self.pattern = None if pattern is None else compile_pattern(pattern, groups=1)

    @override
    def columns(self) -> list[str]:
        return [self.column]

    @override
    def score(self, *, completions: Sequence[str], **columns: Sequence[Any]) -> list[float | None]:
        """One score a row: 1, 0, or ``None`` where there is no right answer to compare with."""
        expected = columns[self.column]
        return [self._score(completion, right) for completion, right in zip(completions, expected, strict=True)]

    @override
    def answer(self, completion: str) -> str:
        """The answer as it is compared; empty where the pattern finds none."""
        found = self._found(completion)
        return "" if found is None else found

    def _score(self, completion: str, right: Any) -> float | None:
        if right is None:
            return None
        accepted = right if isinstance(right, list | tuple) else [right]
        found = self._found(completion)
        return float(found is not None and any(found == self._normal(_text(each)) for each in accepted))

    def _found(self, completion: str) -> str | None:
        found = completion if self.pattern is None else last_capture(self.pattern, completion)
        return None if found is None else self._normal(found)

    def _normal(self, text: str) -> str:
        text = text.strip() if self.strip else text
        return text.casefold() if self.ignore_case else text


def _text(value: Any) -> str:
    # A column of whole numbers becomes one of floats when a cell is empty.
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
