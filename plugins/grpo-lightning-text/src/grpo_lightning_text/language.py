"""Whether a completion is in a language."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar

from typing_extensions import override

from grpo_lightning.errors import ConfigError, DataError, near_matches, require, require_range
from grpo_lightning.rewards.base import Reward
from grpo_lightning_text.answers import LONGEST_TEXT


class Language(Reward):
    """1 if every stretch of a completion is in the language with ``p >= confidence``, else 0: made to be a gate.

    p is py3langid's probability. A text is cut into stretches of about ``window`` characters between words, so that a change
    of language half-way is seen; a stretch with fewer than ``min_letters`` letters passes. A whole text with fewer cannot be
    told, and scores ``short``. Closely related languages are mixed up: name those that can occur in ``among``. Only the
    first 20,000 characters are looked at, and a longer text is as good as these.

    Source: Lui and Baldwin, langid.py, ACL 2012; Barbaresi, py3langid.

    Args:
        language: Its ISO 639 code, such as ``en``.
        column: Column of the code, in place of ``language``, where rows differ; the reward abstains where it is ``None``.
        confidence: Least probability.
        among: Codes between which to choose; by default all 140 that py3langid knows.
        min_letters: Letters that a text must have to be told.
        short: Score of a text with fewer letters; ``null`` abstains, and then a short text passes the gate.
        window: Characters of a stretch.

    Example:
        >>> reward = Language(language="en")
        >>> reward.score(completions=["Good morning, how are you today?", "Guten Morgen, wie geht es dir heute?", "7"])
        [1.0, 0.0, 0.0]
    """

    name = "language"
    example: ClassVar[dict[str, Any]] = {"column": "language", "among": ["en", "de", "fr"]}
    example_columns: ClassVar[dict[str, list[Any]]] = {"language": ["en", "de", None]}

    def __init__(
        self,
        *,
        language: str | None = None,
        column: str | None = None,
        confidence: float = 0.5,
        among: Sequence[str] | None = None,
        min_letters: int = 10,
        short: float | None = 0.0,
        window: int = 300,
    ) -> None:
        if (language is None) == (column is None):
            raise ConfigError("language", language, "and column are both set or both missing", "set one of them")
        require_range("confidence", confidence, low=0, high=1)
        require_range("min_letters", min_letters, low=1)
        require_range("window", window, low=50)
        if short is not None:
            require_range("short", short, low=0, high=1)
        for code in [*(among or []), *([] if language is None else [language])]:
            good = re.fullmatch("[a-z]{2,3}", code) is not None
            require(good, "language", code, "is no ISO 639 code", "set one such as en")
        if among is not None and language is not None:
            require(language in among, "among", among, f"lacks {language!r}", "add it")
        self.language, self.column, self.confidence = language, column, confidence
        self.among = None if among is None else list(among)
        self.min_letters, self.short, self.window = min_letters, short, window

    @override
    def setup(self) -> None:
        """Load the model, a second's work.

        Raises:
            ConfigError: If a code is none that py3langid knows.
        """
        known = _model().labels
        for code in [*(self.among or []), *([] if self.language is None else [self.language])]:
            require(code in known, "language", code, "is unknown", near_matches(code, known))

    @override
    def columns(self) -> list[str]:
        return [] if self.column is None else [self.column]

    @override
    def score(self, *, completions: Sequence[str], **columns: Sequence[Any]) -> list[float | None]:
        """One score a row: 1, 0 or ``short``, or ``None`` where no language is asked for.

        Raises:
            DataError: If a column asks for a language that is unknown, or not in ``among``.
        """
        asked = [self.language] * len(completions) if self.column is None else columns[self.column]
        return [
            None if code is None else self._score(text, code) for text, code in zip(completions, asked, strict=True)
        ]

    def _score(self, text: str, code: Any) -> float | None:
        known = _model().labels if self.among is None else self.among
        if code not in known:
            raise DataError("column", code, f"in column {self.column!r} is no language that can be told",
                            near_matches(str(code), known))  # fmt: skip
        text = text[:LONGEST_TEXT]
        if not self._has_letters(text):
            return self.short
        return float(all(self._probability(part, code) >= self.confidence for part in stretches(text, self.window)))

    def _has_letters(self, text: str) -> bool:
        return sum(character.isalpha() for character in text) >= self.min_letters

    def _probability(self, text: str, code: str) -> float:
        if not self._has_letters(text):
            return 1.0  # a stretch of digits is in every language
        ranked = _model().rank(text)
        chosen = {name: p for name, p in ranked if self.among is None or name in self.among}
        return float(chosen[code] / max(sum(chosen.values()), 1e-300))


def stretches(text: str, window: int) -> list[str]:
    """A text in pieces of about ``window`` characters, cut between words; the last one is at least half as long.

    Example:
        >>> stretches("aa bb cc", 5)
        ['aa bb', ' cc']
    """
    pieces: list[str] = []
    start = 0
    while len(text) - start > window:
        cut = max(text.rfind(" ", start + 1, start + window + 1), text.rfind("\n", start + 1, start + window + 1))
        cut = cut if cut > start else start + window
        pieces.append(text[start:cut])
        start = cut
    rest = text[start:]
    if pieces and len(rest) < window / 2:
        pieces[-1] += rest
    else:
        pieces.append(rest)
    return pieces


@lru_cache(maxsize=1)
def _model() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
