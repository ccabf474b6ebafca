"""Overlap of boxes."""

from __future__ import annotations

from typing import Any, ClassVar

from typing_extensions import override

from grpo_lightning_text.box_reward import BoxReward
from grpo_lightning_text.boxes import Box, union_and_overlap


class BoxIoU(BoxReward):
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

    @override
    def similarity(self, found: Box, expected: Box) -> float:
        union, overlap = union_and_overlap(found, expected)
        return overlap / union
