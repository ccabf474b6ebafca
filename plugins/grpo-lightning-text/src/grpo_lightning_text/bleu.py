"""Overlap of words with references."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar, Literal

from typing_extensions import override

from grpo_lightning.errors import require, require_range
from grpo_lightning_text.answers import LONGEST_TEXT
from grpo_lightning_text.column_reward import ColumnReward
from grpo_lightning_text.references import references_in

TOKENIZERS = ("13a", "intl", "char", "zh", "none")


class BLEU(ColumnReward):
    """``min(1, e^(1 - r/c)) * (prod_(n <= N) p_n)^(1/N)``: the sentence BLEU of sacrebleu, in [0, 1].

    ``p_n`` is the share of n-grams of the completion that a reference has, counted at most as often as in the reference that
    has it most; one that is 0 is smoothed: the k-th such order counts ``1 / (2^k m)``, ``m`` its n-grams in the completion
    (``exp``). ``N`` is ``order``, or the most words that the completion has if these are fewer. ``c`` is the completion's
    length and ``r`` that of the reference closest to it. 0 without a common word, and for an empty completion. Only the
    first 20,000 characters are scored.

    Source: Papineni et al., BLEU, ACL 2002; Post, sacrebleu, arXiv 1804.08771.

    Args:
        column: Column of the reference: a text, or a list of several. The reward abstains where it is ``None``.
        order: N, the length of the longest n-grams.
        tokenizer: What a word is: ``13a`` and ``intl`` split punctuation off, ``char`` takes characters, ``zh`` splits
            Chinese characters, ``none`` splits at white space.
        lowercase: Take capital and small letters as equal.

    Example:
        >>> [round(x, 3) for x in BLEU().score(completions=["a b c d", "a b c e", ""], answer=["a b c d"] * 3)]
        [1.0, 0.595, 0.0]
    """

    name = "bleu"
    example_columns: ClassVar[dict[str, list[Any]]] = {"answer": ["The cat sat.", ["a b c d", "a b"], None]}

    def __init__(
        self,
        *,
        column: str = "answer",
        order: int = 4,
        tokenizer: Literal["13a", "intl", "char", "zh", "none"] = "13a",
        lowercase: bool = False,
    ) -> None:
        require_range("order", order, low=1, high=16)
        require(tokenizer in TOKENIZERS, "tokenizer", tokenizer, "is unknown", f"set one of {', '.join(TOKENIZERS)}")
        super().__init__(column=column)
        self.order, self.tokenizer, self.lowercase = order, tokenizer, lowercase

    @override
    def setup(self) -> None:
        _metric(self.order, self.tokenizer, self.lowercase)

    @override
    def compare(self, completion: str, right: Any) -> float:
        references = references_in(right, self.column)
        found = _metric(self.order, self.tokenizer, self.lowercase).sentence_score(
            completion[:LONGEST_TEXT], references
        )
        return min(1.0, float(found.score) / 100)


@lru_cache(maxsize=16)
def _metric(order: int, tokenizer: str, lowercase: bool) -> Any:
    from sacrebleu import metrics

    return metrics.BLEU(max_ngram_order=order, tokenize=tokenizer, lowercase=lowercase, effective_order=True)
