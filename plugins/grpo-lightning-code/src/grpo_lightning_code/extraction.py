"""Finding the code in a completion."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, get_args

Where = Literal["block", "opened", "whole"]
WHERE: tuple[str, ...] = get_args(Where)
_FENCE = re.compile(r"^[ \t]*+(?P<fence>`{3,}+|~{3,}+)[ \t]*+(?P<info>[^`\n]*+)$", re.MULTILINE)


def extract_code(completion: str, *, where: Where, languages: Sequence[str]) -> str | None:
    """The code in a completion, ``None`` where there is none.

    Args:
        completion: What the policy wrote.
        where: ``block``: the last closed fenced block in one of ``languages``. ``opened``: the prompt has opened the
            block; what comes before the first closing fence, or all of it. ``whole``: all of it.
        languages: Words after the opening fence that count, in lower case; ``""`` is a fence without any.

    Example:
        >>> extract_code("```python\\nx = 1\\n```", where="block", languages=["python"])
        'x = 1\\n'
    """
    if where == "whole":
        return completion
    if where == "opened":
        closing = next((found for found in _FENCE.finditer(completion) if not found["info"].strip()), None)
        return completion if closing is None else completion[: closing.start()]
    found: str | None = None
    opening: re.Match[str] | None = None
    for fence in _FENCE.finditer(completion):
        if opening is None:
            opening = fence
        elif _closes(opening, fence):
            words = opening["info"].split()
            if (words[0].lower() if words else "") in languages:
                found = completion[opening.end() + 1 : fence.start()]
            opening = None
    return found


def _closes(opening: re.Match[str], fence: re.Match[str]) -> bool:
    """Whether a fence ends the block that another began: of the same characters, at least as many, and alone."""
    return not fence["info"].strip() and fence["fence"].startswith(opening["fence"])
