"""Overlap of boxes that also tells how far apart they are."""

from __future__ import annotations

from typing import Any, ClassVar

from typing_extensions import override

from grpo_lightning_text.box_reward import BoxReward
from grpo_lightning_text.boxes import Box, enclosing, union_and_overlap


class BoxGIoU(BoxReward):
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

    @override
    def similarity(self, found: Box, expected: Box) -> float:
        union, overlap = union_and_overlap(found, expected)
        around = enclosing(found, expected).area
        return (overlap / union + union / around) / 2
