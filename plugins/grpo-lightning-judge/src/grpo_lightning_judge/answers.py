"""Finding a verdict in what a judge wrote."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from grpo_lightning.errors import ConfigError
from grpo_lightning_judge.failures import NoVerdict

_LONGEST = 20_000
"""Characters from the end of an answer that are searched: a verdict comes last, and a search must end."""
_MOST_BRACES = 200


def find_field(text: str, key: str) -> Any:
    """The value of ``key`` in the last JSON object of ``text`` that has it.

    Raises:
        NoVerdict: If there is none.

    Example:
        >>> find_field('I waver between {"score": 3} and more. {"score": 4}', "score")
        4
    """
    text = text[-_LONGEST:]
    decoder = json.JSONDecoder()
    for start in [found.start() for found in re.finditer(r"\{", text)][: -_MOST_BRACES - 1 : -1]:
        try:
            value, _ = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and key in value:
            return value[key]
    raise NoVerdict(f"there is no JSON object with {key!r} in it")


def find_pattern(text: str, pattern: str) -> str:
    """The first group of the last match of ``pattern`` in ``text``.

    Raises:
        NoVerdict: If nothing matches.
    """
    found = [match.group(1) for match in re.finditer(pattern, text[-_LONGEST:])]
    if not found or found[-1] is None:
        raise NoVerdict(f"nothing matches {pattern!r}")
    return str(found[-1])


def check_pattern(pattern: str | None) -> None:
    """Check that ``pattern`` is a regular expression with one group.

    Raises:
        ConfigError: If it is not.
    """
    if pattern is None:
        return
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise ConfigError("pattern", pattern, f"is no regular expression ({error})", "mend it") from None
    if groups != 1:
        raise ConfigError("pattern", pattern, f"has {groups} groups", "put one group around the verdict")


def as_number(value: Any) -> float:
    """``value`` as a finite number; a text that is one counts.

    Raises:
        NoVerdict: If it is none.
    """
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise NoVerdict(f"{_short(value)} is no number") from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NoVerdict(f"{_short(value)} is no number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise NoVerdict(f"{_short(value)} is not finite")
    return number


def as_whole(value: Any) -> int:
    """``value`` as a whole number.

    Raises:
        NoVerdict: If it is none.
    """
    number = as_number(value)
    if number != int(number):
        raise NoVerdict(f"{_short(value)} is no whole number")
    return int(number)


def as_list(value: Any, length: int) -> list[Any]:
    """``value`` as a list of ``length`` entries.

    Raises:
        NoVerdict: If it is none.
    """
    if not isinstance(value, list):
        raise NoVerdict(f"{_short(value)} is no list")
    if len(value) != length:
        raise NoVerdict(f"the list has {len(value)} entries, not {length}")
    return value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
