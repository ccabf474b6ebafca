"""What a pattern of the user's captures."""

from __future__ import annotations

import re

from grpo_lightning.errors import ConfigError, require


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


def last_capture(pattern: re.Pattern[str], text: str) -> str | None:
    """What the one group of ``pattern`` captured in its last match; ``None`` without a match."""
    captured: str | None = None
    for match in pattern.finditer(text):
        captured = match.group(1)
    return captured
