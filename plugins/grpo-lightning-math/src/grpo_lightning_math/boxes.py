r"""Boxes in a text: ``\boxed{...}`` and ``\fbox{...}``."""

from __future__ import annotations

import re
from typing import NamedTuple

LONGEST_TEXT = 20_000
"""Characters of a completion, from its end, that are looked at."""
CLOSE = 10
"""Boxes with less than this between them are one answer of several parts."""
_TOKEN = re.compile(r"\\(?:boxed|fbox)\s*\{|\\.|[{}]", re.DOTALL)
_THINKING_END = "</think>"


class Box(NamedTuple):
    """A closed box: ``text[start:end]`` is all of it."""

    start: int
    end: int
    content: str


def boxes(text: str) -> list[Box]:
    r"""Closed boxes that lie in no other closed one, in order; one pass over the text.

    Example:
        >>> [box.content for box in boxes(r"\boxed{\frac{1}{2}} or \boxed{0.5}, not \boxed{7")]
        ['\\frac{1}{2}', '0.5']
    """
    opened: list[tuple[int, int, bool]] = []
    closed: list[Box] = []
    for token in _TOKEN.finditer(text):
        mark = token.group()
        if mark.endswith("{") and mark != r"\{":
            opened.append((token.start(), token.end(), len(mark) > 1))
        elif mark == "}" and opened:
            start, inside, is_box = opened.pop()
            if is_box:
                # Those inside it were closed before it, and stand at the end of the list.
                while closed and closed[-1].start > start:
                    closed.pop()
                closed.append(Box(start, token.end(), text[inside : token.start()]))
    return closed


def last_boxes(text: str) -> str | None:
    r"""The last box of a text with those close before it, as written; ``None`` where there is none.

    ``\boxed{1}, \boxed{2}`` is one answer of two parts.
    """
    found = boxes(text)
    if not found:
        return None
    first = len(found) - 1
    while first and found[first].start - found[first - 1].end < CLOSE:
        first -= 1
    return text[found[first].start : found[-1].end]


def after_thinking(completion: str) -> str:
    """What follows the last ``</think>``, or all of it where there is none; from the end, ``LONGEST_TEXT`` at most."""
    return completion[-LONGEST_TEXT:].rpartition(_THINKING_END)[2]
