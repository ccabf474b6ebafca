"""Finding the answer in a completion with a pattern."""

from __future__ import annotations

import re

from grpo_lightning.errors import ConfigError, require


def compile_pattern(pattern: str, *, groups: int | None = None) -> re.Pattern[str]:
    """The compiled form of an argument ``pattern``.

    Args:
        pattern: A regular expression of Python's ``re``.
        groups: Capturing groups that it must have; any number if ``None``.

    Raises:
        ConfigError: If it is no regular expression, or has another number of groups.
    """
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ConfigError("pattern", pattern, f"is no regular expression ({error})", "mend it") from None
    fits = groups is None or compiled.groups == groups
    fix = f"use exactly {groups}, and (?:...) for groups that capture nothing"
    require(fits, "pattern", pattern, f"has {compiled.groups} capturing groups", fix)
    return compiled


def last_capture(pattern: re.Pattern[str], completion: str) -> str | None:
    """What the one group of ``pattern`` captured in its last match; ``None`` without a match."""
    captured: str | None = None
    for match in pattern.finditer(completion):
        captured = match.group(1)
    return captured
