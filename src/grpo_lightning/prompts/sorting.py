"""Made-up digits to sort."""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from grpo_lightning.errors import require_range
from grpo_lightning.prompts.procedural import Procedural, Split


class Sorting(Procedural):
    """Digits to sort: the prompt ``3142>`` with the answer ``1234``, all prompts different.

    Each row has the columns ``prompt`` and ``answer``. Digits may repeat. About a fifth of the ``10 ** length``
    prompts are held out, by a hash of the prompt: train and held-out data share none, whatever their counts and seeds.

    Args:
        count: Prompts; by default 1000, or as many as there are where there are fewer. More than there are is an error
            that gives both numbers.
        length: Digits of a prompt.
        seed: Seed of the draw.
        split: ``train`` or ``held_out``.

    Example:
        >>> source = Sorting(count=5, length=3)
        >>> source.load()
        >>> all("".join(sorted(row["prompt"][:-1])) == row["answer"] for row in source)
        True
    """

    name = "sorting"

    def __init__(self, *, count: int | None = None, length: int = 4, seed: int = 0, split: Split = "train") -> None:
        super().__init__(count=count, seed=seed, split=split)
        require_range("length", length, low=1)
        self.length = length

    @override
    def radices(self) -> list[int]:
        return [10] * self.length

    @override
    def row(self, question: tuple[int, ...]) -> dict[str, Any]:
        return {
            "prompt": "".join(map(str, question)) + ">",
            "answer": "".join(map(str, sorted(question))),
        }
