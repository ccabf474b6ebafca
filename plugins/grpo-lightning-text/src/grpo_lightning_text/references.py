"""Reference texts in a column."""

from __future__ import annotations

from typing import Any

from grpo_lightning.errors import DataError


def references_in(value: Any, column: str) -> list[str]:
    """The references that a cell holds: one text, or a list of them.

    Raises:
        DataError: If it holds none, or one that is empty or no text.
    """
    found = list(value) if isinstance(value, list | tuple) else [value]
    if not found or not all(isinstance(each, str) and each.strip() for each in found):
        reason = f"in column {column!r} is no reference"
        raise DataError("column", value, reason, "give a text that is not empty, or a list of such texts")
    return found
