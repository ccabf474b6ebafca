"""Several data sets laid end to end."""

from __future__ import annotations

from collections.abc import Mapping

from grpo_lightning.errors import require


def check_sizes(sizes: Mapping[str, int]) -> None:
    """Check that there is something to draw.

    Raises:
        ConfigError: If there is no data set, or one of them is empty.
    """
    require(bool(sizes), "data", dict(sizes), "holds no data set to draw prompts from", "give one")
    for name, size in sizes.items():
        require(size > 0, "data", name, "is a data set without rows", "remove it, or mend its file")


def locate(sizes: Mapping[str, int], position: int) -> tuple[str, int]:
    """Data set and index of the row at ``position`` of all data sets laid end to end, in order of ``sizes``.

    Example:
        >>> locate({"easy": 2, "hard": 3}, 4)
        ('hard', 2)
    """
    for name, size in sizes.items():
        if position < size:
            return name, position
        position -= size
    raise IndexError(f"the data sets end {position} rows before that position")
