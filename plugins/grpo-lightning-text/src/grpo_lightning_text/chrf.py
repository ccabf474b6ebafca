"""Overlap of characters with references."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar

from typing_extensions import override

from grpo_lightning.errors import require_range
from grpo_lightning_text.answers import LONGEST_TEXT
from grpo_lightning_text.column_reward import ColumnReward
from grpo_lightning_text.references import references_in


class ChrF(ColumnReward):
    """``(1 + b^2) P R / (b^2 P + R)``: the sentence chrF of sacrebleu, in [0, 1].

    ``P`` and ``R`` are precision and recall of n-grams, means over the orders of which completion and reference have some.
    Of several references the best counts. 0 without a common character, and for an empty completion. Only the first 20,000
    characters are scored.

    Source: Popović, chrF, WMT 2015; Post, sacrebleu, arXiv 1804.08771.

    Args:
        column: Column of the reference: a text, or a list of several. The reward abstains where it is ``None``.
        characters: Longest n-grams of characters; white space is left out.
        words: Longest n-grams of words: 0 is chrF, 2 is chrF++.
        beta: b, the weight of recall.
        lowercase: Take capital and small letters as equal.

    Example:
        >>> [round(x, 3) for x in ChrF(characters=1).score(completions=["abc", "ab", ""], answer=["abc"] * 3)]
        [1.0, 0.714, 0.0]
    """

    name = "chrf"
    example_columns: ClassVar[dict[str, list[Any]]] = {"answer": ["The cat sat.", ["a b c d", "a b"], None]}

    def __init__(
        self,
        *,
        column: str = "answer",
        characters: int = 6,
        words: int = 0,
        beta: float = 2.0,
        lowercase: bool = False,
    ) -> None:
        require_range("characters", characters, low=1, high=16)
        require_range("words", words, low=0, high=16)
        require_range("beta", beta, low=0, low_open=True, high_open=True)
        super().__init__(column=column)
        self.characters, self.words, self.beta, self.lowercase = characters, words, beta, lowercase

    @override
    def setup(self) -> None:
        _metric(self.characters, self.words, self.beta, self.lowercase)

    @override
    def compare(self, completion: str, right: Any) -> float:
        references = references_in(right, self.column)
        metric = _metric(self.characters, self.words, self.beta, self.lowercase)
        return min(1.0, float(metric.sentence_score(completion[:LONGEST_TEXT], references).score) / 100)


@lru_cache(maxsize=16)
def _metric(characters: int, words: int, beta: float, lowercase: bool) -> Any:
    from sacrebleu.metrics import CHRF

    return CHRF(char_order=characters, word_order=words, beta=beta, lowercase=lowercase)
