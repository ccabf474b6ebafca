"""The form of a solution."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from typing_extensions import override

from grpo_lightning.errors import near_matches, require, require_range
from grpo_lightning.rewards.base import Reward
from grpo_lightning_math.boxes import LONGEST_TEXT, Box, boxes

_OPEN, _CLOSE = "<think>", "</think>"


def _has_box(text: str, found: Sequence[Box]) -> bool:
    return any(box.content.strip() for box in found)


def _has_one_box(text: str, found: Sequence[Box]) -> bool:
    return len(found) == 1


def _ends_with_box(text: str, found: Sequence[Box]) -> bool:
    return bool(found) and not text[found[-1].end :].strip(" \t\r\n.!$*\\])")


def _thinks_once(text: str, found: Sequence[Box]) -> bool:
    before, closed, after = text.partition(_CLOSE)
    thought = before.lstrip().removeprefix(_OPEN)
    return bool(closed and thought.strip()) and not any(mark in thought + after for mark in (_OPEN, _CLOSE))


def _boxes_after_thinking(text: str, found: Sequence[Box]) -> bool:
    end = text.rfind(_CLOSE)
    return end >= 0 and bool(found) and found[0].start > end


PARTS: Mapping[str, Callable[[str, Sequence[Box]], bool]] = {
    "boxed": _has_box,
    "one_box": _has_one_box,
    "box_last": _ends_with_box,
    "thinking": _thinks_once,
    "box_after_thinking": _boxes_after_thinking,
}
"""What a part asks of a completion and its boxes."""


class MathFormat(Reward):
    r"""``sum_k s_k [part k holds] / sum_k s_k``: the share of the declared form that a completion has, in [0, 1].

    The parts are:

    - ``boxed``: there is a closed ``\boxed{}`` (or ``\fbox{}``) with something in it.
    - ``one_box``: there is exactly one.
    - ``box_last``: after the last box come at most spaces, a full stop, and what closes a formula.
    - ``thinking``: there is one closed thinking block with something in it. Its ``<think>`` may be missing, as where the chat
      template writes it; nothing stands before it.
    - ``box_after_thinking``: there is a box, and none before the last ``</think>``.

    Only the last 20,000 characters of a completion are looked at.

    Args:
        shares: Share of each part that counts, by name; ``boxed``, ``one_box`` and ``box_last`` alike by default.

    Example:
        >>> MathFormat().score(completions=[r"So \boxed{7}.", r"\boxed{7} it is", "7"])
        [1.0, 0.6666666666666666, 0.0]
    """

    name = "math_format"

    def __init__(self, *, shares: dict[str, float] | None = None) -> None:
        shares = {"boxed": 1.0, "one_box": 1.0, "box_last": 1.0} if shares is None else dict(shares)
        require(bool(shares), "shares", shares, "has no part", f"name some: {', '.join(PARTS)}")
        for part, share in shares.items():
            require(part in PARTS, "shares", part, "is no part", near_matches(part, PARTS))
            require_range("shares", share, low=0, low_open=True, high_open=True)
        self.shares = shares

    @override
    def score(self, *, completions: Sequence[str]) -> list[float]:
        """One score a row, in [0, 1]."""
        return [self._score(completion[-LONGEST_TEXT:]) for completion in completions]

    def _score(self, text: str) -> float:
        found = boxes(text)
        held = sum(share for part, share in self.shares.items() if PARTS[part](text, found))
        return held / sum(self.shares.values())
