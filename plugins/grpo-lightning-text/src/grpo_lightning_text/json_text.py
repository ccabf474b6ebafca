"""JSON in a text."""

from __future__ import annotations

import json
import math
from typing import Any

from grpo_lightning_text.answers import LONGEST_TEXT

MOST_STARTS = 50
"""Places at which JSON may begin that are tried."""
DEEPEST = 50
"""Brackets within brackets: what is deeper is no answer, and would exhaust whatever walks through it."""


def first_object(text: str) -> dict[str, Any] | None:
    """The first JSON object in the first 20,000 characters of a text, whatever stands around it; ``None`` without one.

    NaN and the infinities are no JSON, nor are numbers too large for a float. Of two equal keys the later one counts.

    Example:
        >>> first_object('Sure {so}: {"a": [1, 2]} and {"b": 3}'), first_object('{"a": NaN}'), first_object("[1]")
        ({'a': [1, 2]}, None, None)
    """
    found = _first(text[:LONGEST_TEXT], "{")
    return found if isinstance(found, dict) else None


def first_list(text: str) -> list[Any] | None:
    """The first JSON list in a text, as :func:`first_object` finds objects.

    Example:
        >>> first_list("the items are [1, 2]."), first_list("1, 2")
        ([1, 2], None)
    """
    found = _first(text[:LONGEST_TEXT], "[")
    return found if isinstance(found, list) else None


def _first(text: str, bracket: str) -> Any:
    decoder = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
    start = -1
    for _ in range(MOST_STARTS):
        start = text.find(bracket, start + 1)
        if start < 0:
            return None
        try:
            value, _end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if shallow(value):
            return value
    return None


def shallow(value: Any) -> bool:
    """Whether nothing in a value lies more than ``DEEPEST`` lists and objects deep."""
    level = [value]
    for _ in range(DEEPEST):
        level = [item for each in level for item in _items(each)]
        if not level:
            return True
    return False


def _items(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is too large")
    return number
