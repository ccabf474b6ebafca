"""Rewards that fail on rank 1 only; ranks import them from here."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence


def _on_rank_1() -> bool:
    return os.environ.get("LOCAL_RANK", "0") == "1"


def raises(completions: Sequence[str]) -> list[float]:
    """Raises on one rank."""
    if _on_rank_1():
        raise KeyError("by hand")
    return lengths(completions)


def raises_in_evaluation(completions: Sequence[str], stage: str) -> list[float]:
    """Raises on one rank, in evaluations."""
    return lengths(completions) if stage == "train" else raises(completions)


def raises_on_both(completions: Sequence[str]) -> list[float]:
    """Raises with another text on each rank."""
    raise KeyError(f"rank {os.environ.get('LOCAL_RANK', '0')}")


def hangs(completions: Sequence[str]) -> list[float]:
    """Hangs on one rank."""
    if _on_rank_1():
        time.sleep(200)
    return lengths(completions)


def spoils_a_row(completions: Sequence[str], members: Sequence[int]) -> list[float]:
    """NaN for one row of each group, on one rank."""
    if _on_rank_1():
        return [float("nan") if member == 2 else 1.0 for member in members]
    return lengths(completions)


def lengths(completions: Sequence[str]) -> list[float]:
    """The sum of the digits' codes, so that texts differ."""
    return [float(sum(map(ord, text)) % 7) for text in completions]
