"""What every side of a benchmark gets: the same prompts, lengths and rewards. Runs in the environments of peers, too."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Sequence

WORDS = ("the", "cat", "of", "water", "house", "green", "number", "time", "people", "small", "road", "music", "before",
         "about", "light", "world", "write", "story", "answer", "long")  # fmt: skip
FILLERS = (" a", "a", ".")
"""Tried when no further word fits: the first that adds exactly what is missing is taken."""


def prompt_of(length: Callable[[str], int], tokens: int, seed: int) -> str:
    """A text of exactly ``tokens`` tokens, different for every seed.

    Args:
        length: Tokens of a text.
        tokens: Tokens wanted.
        seed: Decides the words.
    """
    draw = random.Random(f"{seed}/{tokens}")
    text = str(draw.randrange(10))
    while length(f"{text} {(word := draw.choice(WORDS))}") <= tokens:
        text = f"{text} {word}"
    while (missing := tokens - length(text)) > 0:
        filler = next((each for each in FILLERS if 0 < length(text + each) - length(text) <= missing), None)
        if filler is None:
            raise ValueError(f"no text of {tokens} tokens was found: {text!r} has {length(text)}")
        text += filler
    return text


def prompts(length: Callable[[str], int], tokens: int, count: int, seed: int = 0) -> list[str]:
    """``count`` different texts of ``tokens`` tokens each."""
    return [prompt_of(length, tokens, 1000 * seed + index) for index in range(count)]


def token_prompts(vocabulary: int, tokens: int, count: int, seed: int) -> list[list[int]]:
    """``count`` prompts as random token ids: for engines, which do not care what a text says."""
    draw = random.Random(f"ids/{seed}/{tokens}")
    low = min(100, vocabulary // 4)
    return [[draw.randrange(low, vocabulary) for _ in range(tokens)] for _ in range(count)]


def long_tailed(rows: int, most: int, seed: int) -> list[int]:
    """Lengths as completions have them: most are short, a few reach ``most``.

    Drawn from a log-normal distribution with its median at a quarter of ``most`` and a sigma of 0.9, cut at ``most``.
    """
    draw = random.Random(f"lengths/{seed}/{rows}")
    return [max(1, min(most, round(most / 4 * draw.lognormvariate(0.0, 0.9)))) for _ in range(rows)]


def score(completion: str) -> float:
    """A number in [0, 1) that depends on every letter, so that no group is without signal and nothing is to be learned."""
    return zlib.crc32(completion.encode()) / 2**32


def scores(completions: Sequence[str]) -> list[float]:
    """:func:`score` of each."""
    return [score(completion) for completion in completions]
