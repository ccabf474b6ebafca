"""Overlap of boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from typing_extensions import override

from grpo_lightning.rewards.base import Reward
from grpo_lightning_text.answers import answer_in, compile_pattern
from grpo_lightning_text.boxes import Format, box_in, expected_box, require_format, union_and_overlap


class BoxIoU(Reward):
    """``|A and B| / |A or B|``: intersection over union of the completion's box and the right one, in [0, 1].

    The completion's box is its last list of four numbers in brackets or parentheses; without one, its numbers if they are
    four. 0 without a box, and for one whose width or height is not positive.

    Args:
        column: Column of the right box: four numbers, as a list or as text. The reward abstains where it is ``None``.
        format: ``xyxy`` (two opposite corners, the smaller numbers first), ``xywh`` (a corner, width, height) or ``cxcywh``
            (the centre, width, height); of both boxes.
        pattern: Regular expression with one group: only what its last match captured is looked at.

    Example:
        >>> BoxIoU().score(completions=["[0, 0, 2, 2]", "[1, 0, 3, 2]", "nowhere"], answer=[[0, 0, 2, 2]] * 3)
        [1.0, 0.3333333333333333, 0.0]
    """

    name = "box_iou"
    example_columns: ClassVar[dict[str, list[Any]]] = {"answer": [[0, 0, 2, 2], "[1, 1, 5, 4]", None]}

    def __init__(self, *, column: str = "answer", format: Format = "xyxy", pattern: str | None = None) -> None:
        require_format(format)
        self.column, self.format = column, format
        self.pattern = None if pattern is None else compile_pattern(pattern)

    @override
    def columns(self) -> list[str]:
        return [self.column]

    @override
    def score(self, *, completions: Sequence[str], **columns: Sequence[Any]) -> list[float | None]:
        """One score a row, in [0, 1], or ``None`` where there is no right box.

        Raises:
            DataError: If the column holds no box of positive area.
        """
        return [
            None if right is None else self._score(completion, right)
            for completion, right in zip(completions, columns[self.column], strict=True)
        ]

    def _score(self, completion: str, right: Any) -> float:
        expected = expected_box(right, self.column, self.format)
        text = answer_in(completion, self.pattern)
        found = None if text is None else box_in(text, self.format)
        if found is None:
            return 0.0
        union, overlap = union_and_overlap(found, expected)
        return overlap / union
