"""The form of a completion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from grpo_lightning.rewards.base import Reward
from grpo_lightning.rewards.extraction import compile_pattern


class Regex(Reward):
    """1 if a regular expression matches the completion, else 0.

    Args:
        pattern: A regular expression of Python's ``re``; flags go inside it, such as ``(?s)``.
        full: It must match the whole completion, rather than some part of it.

    Example:
        >>> Regex(pattern=r"<answer>.*</answer>").score(completions=["<answer>7</answer>", "7"])
        [1.0, 0.0]
    """

    name = "regex"
    example: ClassVar[Mapping[str, Any]] = {"pattern": "<answer>.*</answer>"}

    def __init__(self, *, pattern: str, full: bool = False) -> None:
        self.pattern, self.full = compile_pattern(pattern), full

    @override
    def score(self, *, completions: Sequence[str]) -> list[float]:
        """One score a row: 1 or 0."""
        match = self.pattern.fullmatch if self.full else self.pattern.search
        return [float(match(completion) is not None) for completion in completions]
