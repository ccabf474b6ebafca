"""A reward that prefers completions which read the same backwards."""

from __future__ import annotations

from grpo_lightning import hookimpl
from grpo_lightning.errors import require_range
from grpo_lightning.rewards.base import Reward


class Palindrome(Reward):
    """Share of mirrored pairs of characters that match: ``sum_(i < n // 2) [x_i = x_(n-1-i)] / (n // 2)``.

    Case, spaces and punctuation do not count. A completion with fewer than ``min_length`` letters and digits scores 0,
    so that a single character is not a way out.

    Args:
        min_length: Letters and digits that a completion must have, at least 2.

    Example:
        >>> Palindrome().score(completions=["Never odd or even", "abxa", "x"])
        [1.0, 0.5, 0.0]
    """

    name = "palindrome"

    def __init__(self, *, min_length: int = 2) -> None:
        require_range("min_length", min_length, low=2)
        self.min_length = min_length

    def score(self, *, completions: list[str]) -> list[float]:
        """One score in [0, 1] a completion."""
        return [self.matching(completion) for completion in completions]

    def matching(self, text: str) -> float:
        """Share of the mirrored pairs of ``text`` that match."""
        letters = [character for character in text.lower() if character.isalnum()]
        if len(letters) < self.min_length:
            return 0.0
        pairs = len(letters) // 2
        return sum(letters[i] == letters[-1 - i] for i in range(pairs)) / pairs


@hookimpl
def grpo_register_reward() -> type[Reward]:
    return Palindrome
