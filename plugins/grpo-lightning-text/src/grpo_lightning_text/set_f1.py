"""Overlap of sets."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable
from typing import Any, ClassVar, Literal

from typing_extensions import override

from grpo_lightning.errors import DataError, require, require_range
from grpo_lightning_text.answers import answer_in
from grpo_lightning_text.column_reward import ColumnReward, compiled
from grpo_lightning_text.json_text import first_list


class SetF1(ColumnReward):
    """``(1 + b^2) P R / (b^2 P + R)`` of the completion's items, P = common / written, R = common / right, in [0, 1].

    1 where both sets are empty, 0 where one of them is, and where a JSON list is asked for and there is none. Items are
    compared as texts without outer white space; empty ones do not count. With white space as separator and ``multiset`` it is
    token F1.

    Args:
        column: Column of the right items: a list, or a text that is split like the completion. The reward abstains where it
            is ``None``.
        format: ``separated``: the answer is split at ``separator``. ``json``: it is the first JSON list in it.
        separator: What stands between items: ``" "`` is any white space, and with ``""`` every character is an item.
        multiset: Count an item as often as it is written; otherwise duplicates are ignored.
        beta: b, how much more recall counts than precision: 0 is precision, ``.inf`` recall.
        ignore_case: Take capital and small letters as equal.
        pattern: Regular expression with one group: the answer is what its last match captured, and without a match there is
            no item. By default the whole completion is the answer.

    Example:
        >>> SetF1().score(completions=["a, b", "b, c, d, b", ""], answer=[["a", "b"], "a, b", ["a", "b"]])
        [1.0, 0.4, 0.0]
    """

    name = "set_f1"
    example_columns: ClassVar[dict[str, list[Any]]] = {"answer": [["red", "blue"], "1, 2", [], None]}

    def __init__(
        self,
        *,
        column: str = "answer",
        format: Literal["separated", "json"] = "separated",
        separator: str = ",",
        multiset: bool = False,
        beta: float = 1.0,
        ignore_case: bool = False,
        pattern: str | None = None,
    ) -> None:
        require(format in ("separated", "json"), "format", format, "is no format", "set separated or json")
        require_range("beta", beta, low=0)
        super().__init__(column=column)
        self.format, self.separator, self.multiset = format, separator, multiset
        self.beta, self.ignore_case = beta, ignore_case
        self.pattern = compiled(pattern)

    @override
    def compare(self, completion: str, right: Any) -> float:
        expected = self._counted(self._expected(right))
        text = answer_in(completion, self.pattern)
        items: Iterable[Any] | None = [] if text is None else self._items(text)
        if items is None:
            return 0.0
        found = self._counted(items)
        written, wanted, common = found.total(), expected.total(), (found & expected).total()
        if not written or not wanted:
            return float(written == wanted)
        if math.isinf(self.beta):
            return common / wanted
        return (1 + self.beta**2) * common / (self.beta**2 * wanted + written)

    def _expected(self, right: Any) -> Iterable[Any]:
        items = self._items(right) if isinstance(right, str) else right
        if not isinstance(items, list | tuple):
            wanted = "a list, or a JSON list as text" if self.format == "json" else "a list, or a text"
            raise DataError("column", right, f"in column {self.column!r} holds no items", f"give {wanted}")
        return items

    def _items(self, text: str) -> list[Any] | None:
        if self.format == "json":
            return first_list(text)
        if self.separator == "":
            return list(text)
        return text.split() if self.separator.isspace() else text.split(self.separator)

    def _counted(self, items: Iterable[Any]) -> Counter[str]:
        texts = [item.strip() if isinstance(item, str) else json.dumps(item, sort_keys=True) for item in items]
        counted = Counter(text.casefold() if self.ignore_case else text for text in texts if text)
        return counted if self.multiset else Counter(set(counted))
