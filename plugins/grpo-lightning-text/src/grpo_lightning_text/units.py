"""What lengths are counted in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from grpo_lightning.errors import require
from grpo_lightning.types import Turn

Unit = Literal["steps", "words", "characters"]


def require_unit(unit: str) -> None:
    """Raise ConfigError unless ``unit`` is one."""
    require(unit in ("steps", "words", "characters"), "unit", unit, "is no unit", "set steps, words or characters")


def lengths_in(unit: Unit, lengths: Sequence[int], turns: Sequence[Sequence[Turn]]) -> list[int]:
    """Length of what the policy wrote in all turns of a row: its steps, or words (by white space) or characters of it."""
    if unit == "words":
        return [sum(len(turn.text.split()) for turn in row) for row in turns]
    if unit == "characters":
        return [sum(len(turn.text) for turn in row) for row in turns]
    return list(lengths)
