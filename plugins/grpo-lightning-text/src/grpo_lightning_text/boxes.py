"""Boxes with sides along the axes."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from grpo_lightning.errors import DataError, require
from grpo_lightning_text.numbers_text import finite_numbers, last_list

Format = Literal["xyxy", "xywh", "cxcywh"]


class Box(NamedTuple):
    """A box of positive area."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def area(self) -> float:
        """Width by height."""
        return (self.right - self.left) * (self.bottom - self.top)


def require_format(format: str) -> None:
    """Raise ConfigError unless ``format`` is one."""
    fix = "set xyxy (two corners), xywh (a corner and sizes) or cxcywh (the centre and sizes)"
    require(format in ("xyxy", "xywh", "cxcywh"), "format", format, "is no format", fix)


def box_in(text: str, format: Format) -> Box | None:
    """The last box that a text writes: four numbers in brackets, or the only four; ``None`` if it has no positive area.

    Example:
        >>> box_in("It is at [1, 2, 3, 4].", "xyxy"), box_in("[3, 4, 1, 2]", "xyxy")
        (Box(left=1.0, top=2.0, right=3.0, bottom=4.0), None)
    """
    found = last_list(text, 4)
    return None if found is None else _box(found, format)


def expected_box(value: Any, column: str, format: Format) -> Box:
    """The box that a cell holds, as a list or as text.

    Raises:
        DataError: If it holds no four numbers, or its area is not positive.
    """
    found = finite_numbers(value, 4)
    box = None if found is None else _box(found, format)
    if box is None:
        raise DataError("column", value, f"in column {column!r} is no {format} box of positive area",
                        "give four numbers in the order that format says")  # fmt: skip
    return box


def union_and_overlap(one: Box, other: Box) -> tuple[float, float]:
    """Areas of the union and of the intersection."""
    width = min(one.right, other.right) - max(one.left, other.left)
    height = min(one.bottom, other.bottom) - max(one.top, other.top)
    overlap = max(width, 0.0) * max(height, 0.0)
    return one.area + other.area - overlap, overlap


def enclosing(one: Box, other: Box) -> Box:
    """The smallest box around both."""
    return Box(
        min(one.left, other.left), min(one.top, other.top), max(one.right, other.right), max(one.bottom, other.bottom)
    )


def _box(found: list[float], format: Format) -> Box | None:
    first, second, third, fourth = found
    if format == "xywh":
        box = Box(first, second, first + third, second + fourth)
    elif format == "cxcywh":
        box = Box(first - third / 2, second - fourth / 2, first + third / 2, second + fourth / 2)
    else:
        box = Box(first, second, third, fourth)
    return box if box.right > box.left and box.bottom > box.top and 0 < box.area < float("inf") else None
