"""The part of a completion that is looked at."""

from __future__ import annotations

import re

from grpo_lightning.rewards.extraction import last_capture

LONGEST_TEXT = 20_000
"""Characters of a completion that are looked at: what is longer cannot be read in reasonable time."""


def answer_in(completion: str, pattern: re.Pattern[str] | None) -> str | None:
    """What the one group of ``pattern`` captured last in the last 20,000 characters, or all of them without a pattern.

    Example:
        >>> answer_in("<a>1</a><a>2</a>", re.compile("<a>(.*?)</a>"))
        '2'
    """
    text = completion[-LONGEST_TEXT:]
    return text if pattern is None else last_capture(pattern, text)
