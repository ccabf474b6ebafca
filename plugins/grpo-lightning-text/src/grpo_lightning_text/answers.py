"""The part of a completion that is looked at."""

from __future__ import annotations

import re

from grpo_lightning.errors import ConfigError, require

LONGEST_TEXT = 20_000
"""Characters of a completion that are looked at: what is longer cannot be read in reasonable time."""


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The compiled form of an argument ``pattern``.

    Raises:
        ConfigError: If it is no regular expression, or has not one group.
    """
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ConfigError("pattern", pattern, f"is no regular expression ({error})", "mend it") from None
    fix = "use exactly 1, and (?:...) for groups that capture nothing"
    require(compiled.groups == 1, "pattern", pattern, f"has {compiled.groups} capturing groups", fix)
    return compiled


def answer_in(completion: str, pattern: re.Pattern[str] | None) -> str | None:
    """What the one group of ``pattern`` captured last in the last 20,000 characters, or all of them without a pattern.

    Example:
        >>> answer_in("<a>1</a><a>2</a>", re.compile("<a>(.*?)</a>"))
        '2'
    """
    text = completion[-LONGEST_TEXT:]
    if pattern is None:
        return text
    captured: str | None = None
    for match in pattern.finditer(text):
        captured = match.group(1)
    return captured
