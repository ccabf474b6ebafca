"""Overlap of intervals."""

from __future__ import annotations

from typing import Any, ClassVar

from typing_extensions import override

from grpo_lightning.errors import DataError
from grpo_lightning_text.answers import answer_in
from grpo_lightning_text.column_reward import ColumnReward, compiled
from grpo_lightning_text.numbers_text import finite_numbers, times


class IntervalIoU(ColumnReward):
    """``max(0, min(e, e') - max(s, s')) / (max(e, e') - min(s, s'))``: overlap of intervals [s, e] and [s', e'], in [0, 1].

    The divisor is the length of the union where they meet; where they do not, the score is 0. In time it is tIoU. The
    completion's interval is its last two numbers; ``1:30`` is 90 seconds, and the minus of ``3-7`` is a dash. 0 with fewer
    than two numbers, and where the end is not after the start.

    Args:
        column: Column of the right interval: two numbers, as a list or as text. The reward abstains where it is ``None``.
        pattern: Regular expression with one group: only what its last match captured is looked at.

    Example:
        >>> IntervalIoU().score(completions=["from 2 to 6", "0:05-0:09", "4"], answer=[[2, 6], [2, 6], [2, 6]])
        [1.0, 0.14285714285714285, 0.0]
    """

    name = "interval_iou"
    example_columns: ClassVar[dict[str, list[Any]]] = {"answer": [[2, 6], "0:10-1:00", None]}

    def __init__(self, *, column: str = "answer", pattern: str | None = None) -> None:
        super().__init__(column=column)
        self.pattern = compiled(pattern)

    @override
    def compare(self, completion: str, right: Any) -> float:
        start, end = self._expected(right)
        text = answer_in(completion, self.pattern)
        found = [] if text is None else times(text)[-2:]
        if len(found) < 2 or found[1] <= found[0]:
            return 0.0
        overlap = min(end, found[1]) - max(start, found[0])
        return max(0.0, overlap) / (max(end, found[1]) - min(start, found[0]))

    def _expected(self, value: Any) -> list[float]:
        found = times(value) if isinstance(value, str) else finite_numbers(value, 2)
        if found is None or len(found) != 2 or found[1] <= found[0]:
            raise DataError("column", value, f"in column {self.column!r} is no interval of positive length",
                            "give two numbers, the start first")  # fmt: skip
        return found
