"""What components show of themselves where an example must lie somewhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

DATA = Path(__file__).with_name("example_data")
"""A folder with a small data set, ``train.jsonl``."""


def brief(completions: Sequence[str]) -> list[float]:
    """1 for a completion of fewer than five characters, else 0: a reward that is a function."""
    return [float(len(completion) < 5) for completion in completions]
