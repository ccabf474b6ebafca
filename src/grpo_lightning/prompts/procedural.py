"""Questions that are made up, held-out ones apart from those that train."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.errors import DataError, require, require_range
from grpo_lightning.functional.seeding import addressed_permutation, addressed_uniform
from grpo_lightning.prompts.base import PromptSource

Split = Literal["train", "held_out"]
HELD_OUT_SHARE = 0.2
DEFAULT_COUNT = 1000
# Up to this many questions are shuffled as a whole; of larger spaces, questions are drawn and repeated ones left out.
_ENUMERABLE = 2**20
_CHUNK = 2**12


class Procedural(PromptSource):
    """Distinct questions, each a tuple of whole numbers, in an order that is a function of (seed, split).

    About a fifth of all questions are held out. Which ones is decided by a hash of the question alone, so training and
    held-out data share none, whatever their counts and seeds. Fewer questions are a beginning of more of them.

    Args:
        count: Questions; ``None`` for 1000, or as many as there are where there are fewer.
        seed: Seed of the order.
        split: ``train`` or ``held_out``.
    """

    identifying: slice = slice(None)
    """Numbers of a question that decide whether it is held out."""

    def __init__(self, *, count: int | None, seed: int, split: Split) -> None:
        require_range("count", 1 if count is None else count, low=1)
        require(split in ("train", "held_out"), "split", split, "is no split", "set train or held_out")
        self.count, self.seed, self.split = count, seed, split
        self._rows: list[dict[str, Any]] = []

    @abstractmethod
    def radices(self) -> Sequence[int]:
        """For each number of a question, how many values it can have."""

    @abstractmethod
    def row(self, question: tuple[int, ...]) -> dict[str, Any]:
        """The row that asks a question."""

    def allowed(self, question: tuple[int, ...]) -> bool:
        """Whether the question may be asked; all may by default."""
        return True

    @override
    def load(self) -> None:
        """Make up the questions.

        Raises:
            DataError: If there are fewer than ``count``, giving both numbers.
        """
        wanted = DEFAULT_COUNT if self.count is None else self.count
        questions: dict[tuple[int, ...], None] = {}
        for question in self._candidates(wanted):
            if self.allowed(question):
                questions[question] = None
                if len(questions) == wanted:
                    break
        if not questions or (self.count is not None and len(questions) < self.count):
            reason = f"is more than the {len(questions)} different questions of split {self.split!r}"
            raise DataError("count", wanted, reason, "lower it, or set longer questions")
        self._rows = [self.row(question) for question in questions]

    @override
    def __len__(self) -> int:
        return len(self._loaded())

    @override
    def __getitem__(self, index: int) -> dict[str, Any]:
        return copy.deepcopy(self._loaded()[index])

    @property
    @override
    def columns(self) -> list[str]:
        return list(self._loaded()[0])

    def _loaded(self) -> list[dict[str, Any]]:
        if not self._rows:
            raise RuntimeError("the prompts are not loaded: call load() first")
        return self._rows

    def _candidates(self, wanted: int) -> Iterator[tuple[int, ...]]:
        """Questions of the split in order; of a large space with repetitions, and not for ever."""
        radices, stream = list(self.radices()), f"prompts/{self.name}/{self.split}"
        space = math.prod(radices)
        order = addressed_permutation(self.seed, stream, (0,), space) if space <= _ENUMERABLE else None
        for start in range(0, space if order is not None else 64 * wanted + _ENUMERABLE, _CHUNK):
            if order is not None:
                numbers = np.unravel_index(order[start : start + _CHUNK].numpy(), radices)
                chunk_QA = torch.from_numpy(np.stack(numbers, axis=1))
            else:
                chunk_QA = _drawn(self.seed, stream, start, radices)
            held_out_Q = addressed_uniform(0, "prompts/held_out", chunk_QA[:, self.identifying]) < HELD_OUT_SHARE
            chosen_QA = chunk_QA[held_out_Q == (self.split == "held_out")]
            yield from (tuple(question) for question in chosen_QA.tolist())


def _drawn(seed: int, stream: str, start: int, radices: Sequence[int]) -> Tensor:
    """[Q, A] int64: questions number ``start`` on, each number drawn by itself."""
    attempts = torch.arange(start, start + _CHUNK)
    columns = []
    for place, radix in enumerate(radices):
        address_QA = torch.stack([attempts, torch.full_like(attempts, place)], dim=1)
        columns.append((addressed_uniform(seed, stream, address_QA) * radix).to(torch.int64).clamp_max(radix - 1))
    return torch.stack(columns, dim=1)
