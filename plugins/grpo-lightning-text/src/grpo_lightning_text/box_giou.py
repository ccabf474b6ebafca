"""Overlap of boxes that also tells how far apart they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from typing_extensions import override

from grpo_lightning.rewards.base import Reward
from grpo_lightning_text.answers import answer_in, compile_pattern
from grpo_lightning_text.boxes import Format, box_in, enclosing, expected_box, require_format, union_and_overlap


class BoxGIoU(Reward):
    """``(1 + |A and B| / |A or B| - (|C| - |A or B|) / |C|) / 2``: generalised IoU brought to [0, 1], C around both boxes.

    Unlike ``box_iou`` it tells boxes apart that do not meet: nearer ones score more, up to 1/2. Finding boxes and the edge
    cases are as there.

    Source: Rezatofighi et al., Generalized Intersection over Union, arXiv 1902.09630.

    Args:
        column: Column of the right box: four numbers, as a list or as text. The reward abstains where it is ``None``.
        format: ``xyxy``, ``xywh`` or ``cxcywh``, as in ``box_iou``.
        pattern: Regular expression with one group: only what its last match captured is looked at.

    Example:
        >>> BoxGIoU().score(completions=["[0, 0, 2, 2]", "[2, 0, 4, 2]", "[6, 0, 8, 2]", ""], answer=[[0, 0, 2, 2]] * 4)
        [1.0, 0.5, 0.25, 0.0]
    """

    name = "box_giou"
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
        around = enclosing(found, expected).area
        return (overlap / union + union / around) / 2
