"""Numbers in a text."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

_UNSIGNED = r"\d{1,30}(?:\.\d{1,30})?|\.\d{1,30}"
# A minus after a digit or a letter is a dash, as in 3-7; elsewhere it is a sign.
_NUMBER = rf"(?:(?<![\w.)\]])[-\u2212])?(?:{_UNSIGNED})"
_CLOCK = r"(?:\d{1,4}:)?\d{1,4}:\d{2}(?:\.\d{1,9})?"
_TIMES = re.compile(rf"(?<![\d.:])(?:{_CLOCK}|{_NUMBER})")
_LIST = re.compile(r"[\[(]([^\[\]()]{1,400})[\])]")
_NUMBERS = re.compile(rf"(?<![\d.]){_NUMBER}")


def numbers(text: str) -> list[float]:
    """All decimal numbers in a text.

    Example:
        >>> numbers("from -3.5 to 7, 3-7")
        [-3.5, 7.0, 3.0, 7.0]
    """
    return [float(match.replace("\u2212", "-")) for match in _NUMBERS.findall(text)]


def times(text: str) -> list[float]:
    """All numbers in a text, and times such as ``1:30`` or ``1:02:03.5`` in seconds.

    Example:
        >>> times("01:30 - 2:00, or 12-15.5 s")
        [90.0, 120.0, 12.0, 15.5]
    """
    found = []
    for match in _TIMES.findall(text):
        seconds = 0.0
        for part in match.replace("\u2212", "-").split(":"):
            seconds = 60 * seconds + float(part)
        found.append(seconds)
    return found


def last_list(text: str, length: int) -> list[float] | None:
    """The last list of ``length`` numbers in brackets or parentheses; failing that, all numbers if they are as many.

    Example:
        >>> last_list("[1, 2] then (3, 4)", 2), last_list("1 and 2", 2), last_list("1 2 3", 2)
        ([3.0, 4.0], [1.0, 2.0], None)
    """
    for inside in reversed(_LIST.findall(text)):
        found = numbers(inside)
        if len(found) == length:
            return found
    found = numbers(text)
    return found if len(found) == length else None


def finite_numbers(value: Any, length: int) -> list[float] | None:
    """The numbers of a cell that should hold ``length`` of them, in a list or as text; ``None`` if it does not."""
    if isinstance(value, str):
        return last_list(value, length)
    if not isinstance(value, Sequence) or len(value) != length:
        return None
    good = all(isinstance(each, int | float) and not isinstance(each, bool) and math.isfinite(each) for each in value)
    return [float(each) for each in value] if good else None
