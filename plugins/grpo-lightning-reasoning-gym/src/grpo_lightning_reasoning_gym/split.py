"""Which questions are held out, and how many two sources share."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, Literal

from grpo_lightning.prompts.base import PromptSource

Split = Literal["train", "held_out", "any"]
HELD_OUT_SHARE = 0.2
"""Share of all questions that are held out."""


def is_held_out(question: str) -> bool:
    """Whether a question is held out: a hash of its text, as a number in [0, 1), is below the share held out.

    The text alone decides, so a question is on one side only, whatever the task, its level, seeds and sizes.
    """
    number = int.from_bytes(blake2b(question.encode(), digest_size=8).digest(), "big")
    return number < HELD_OUT_SHARE * 2.0**64


def in_split(question: str, split: Split) -> bool:
    """Whether a question belongs to a split; all belong to ``any``."""
    return split == "any" or is_held_out(question) == (split == "held_out")


def shared_prompts(first: PromptSource, second: PromptSource) -> int:
    """How many different prompts of one loaded source are prompts of another one too.

    Example:
        >>> from grpo_lightning_reasoning_gym.source import ReasoningGymPrompts
        >>> train, held_out = (ReasoningGymPrompts(task="gcd", size=20, split=split) for split in ("train", "held_out"))
        >>> train.load(), held_out.load()
        (None, None)
        >>> shared_prompts(train, held_out), shared_prompts(train, train)
        (0, 20)
    """
    return len(_prompts(first) & _prompts(second))


def _prompts(source: PromptSource) -> set[str]:
    rows: Iterable[dict[str, Any]] = (source[index] for index in range(len(source)))
    return {repr(row["prompt"]) for row in rows}
