"""Similarity of texts by edits."""

from __future__ import annotations

from typing import Any, ClassVar

from typing_extensions import override

from grpo_lightning_text.answers import LONGEST_TEXT, answer_in
from grpo_lightning_text.column_reward import ColumnReward, compiled
from grpo_lightning_text.references import references_in


class EditSimilarity(ColumnReward):
    """``1 - d / max(|x|, |y|)``, d the fewest insertions, deletions and replacements of characters from x to y, in [0, 1].

    x is the completion, y the right text; outer white space is left out of both. Of several right texts the most similar
    counts. 0 for an empty completion, and for one of more than 20,000 characters.

    Source: Levenshtein, 1966; computed as by Myers, Journal of the ACM 46(3), 1999.

    Args:
        column: Column of the right text, or of a list of several. The reward abstains where it is ``None``.
        ignore_case: Take capital and small letters as equal.
        pattern: Regular expression with one group: x is what its last match captured, and a completion without a match
            scores 0. By default it is the whole completion.

    Example:
        >>> EditSimilarity().score(completions=["kitten", "sitting", ""], answer=["sitting"] * 3)  # 3 edits of 7
        [0.5714285714285714, 1.0, 0.0]
    """

    name = "edit_similarity"
    example_columns: ClassVar[dict[str, list[Any]]] = {"answer": ["sitting", ["seven", "7"], None]}

    def __init__(self, *, column: str = "answer", ignore_case: bool = False, pattern: str | None = None) -> None:
        super().__init__(column=column)
        self.ignore_case = ignore_case
        self.pattern = compiled(pattern)

    @override
    def compare(self, completion: str, right: Any) -> float:
        accepted = references_in(right, self.column)
        text = None if len(completion) > LONGEST_TEXT else answer_in(completion, self.pattern)
        found = "" if text is None else self._normal(text)
        if not found:
            return 0.0
        return max(similarity(found, self._normal(each)[:LONGEST_TEXT]) for each in accepted)

    def _normal(self, text: str) -> str:
        text = text.strip()
        return text.casefold() if self.ignore_case else text


def similarity(one: str, other: str) -> float:
    """``1 - d / max(|x|, |y|)`` of two texts of which one is not empty."""
    return 1.0 - distance(one, other) / max(len(one), len(other))


def distance(one: str, other: str) -> int:
    """The fewest insertions, deletions and replacements of characters from ``one`` to ``other``.

    One column of the table of distances at a time: whole numbers hold, bit by bit, where it rises and falls down the
    column, so that a step costs a few additions of ``len(one)`` bits.

    Example:
        >>> distance("kitten", "sitting"), distance("", "ab")
        (3, 2)
    """
    if not one:
        return len(other)
    places: dict[str, int] = {}
    for place, character in enumerate(one):
        places[character] = places.get(character, 0) | 1 << place
    mask, last = (1 << len(one)) - 1, 1 << (len(one) - 1)
    rises, falls, total = mask, 0, len(one)
    for character in other:
        equal = places.get(character, 0)
        down = (((equal & rises) + rises) ^ rises) | equal | falls
        up, lower = (falls | ~(down | rises)) & mask, rises & down
        total += bool(up & last) - bool(lower & last)
        up, lower = (up << 1) | 1, lower << 1
        rises, falls = (lower | ~(down | equal | falls | up)) & mask, up & (down | equal | falls) & mask
    return total
