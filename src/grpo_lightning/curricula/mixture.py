"""Data sets in given proportions."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from itertools import accumulate
from typing import Any, ClassVar

import torch
from typing_extensions import override

from grpo_lightning.curricula.base import Curriculum
from grpo_lightning.curricula.pool import check_sizes
from grpo_lightning.errors import near_matches, require, require_range
from grpo_lightning.functional.passes import Passes
from grpo_lightning.functional.seeding import addressed_uniform


class Mixture(Curriculum):
    """Each prompt's data set is drawn with probability w / sum of w; within a data set, rows come in shuffled passes.

    The data set of prompt number i is a function of (seed, i), and the row is one of (seed, data set, how often that
    was drawn before).

    Args:
        weights: Weight of each data set, by name; they need not sum to 1. 0 leaves a data set out.
    """

    name = "mixture"
    example: ClassVar[Mapping[str, Any]] = {"weights": {"easy": 1.0, "hard": 3.0}}

    def __init__(self, *, weights: dict[str, float]) -> None:
        require(bool(weights), "weights", weights, "names no data set", "give each data set a weight")
        for name, weight in weights.items():
            require_range(f"weights.{name}", weight, low=0, high_open=True)
        require(any(weights.values()), "weights", weights, "are all 0", "give one data set a weight above 0")
        self.weights = dict(weights)
        self.drawn = 0
        self.drawn_from: dict[str, int] = {}
        self._passes: dict[str, Passes] = {}

    @override
    def bind(self, sizes: Mapping[str, int], seed: int) -> None:
        for name in self.weights:
            require(name in sizes, "weights", name, "is no data set", near_matches(name, sizes))
        for name in sizes:
            require(name in self.weights, "weights", name, "is a data set without a weight", "add it; 0 leaves it out")
        check_sizes(sizes)
        super().bind(sizes, seed)
        self._passes = {name: Passes(seed, f"curriculum/{name}", size) for name, size in sizes.items()}

    @override
    def draw(self, n: int) -> list[tuple[str, int]]:
        """The next ``n`` prompts, as (data set, index)."""
        names = [name for name in self.sizes if self.weights[name] > 0]
        edges = list(accumulate(self.weights[name] for name in names))
        numbers = torch.arange(self.drawn, self.drawn + n)[:, None]
        uniforms = addressed_uniform(self.seed, "curriculum", numbers).tolist()
        self.drawn += n
        # A uniform just below 1 may round up to the last edge.
        chosen = (names[min(bisect_right(edges, u * edges[-1]), len(names) - 1)] for u in uniforms)
        return [(name, self._next(name)) for name in chosen]

    def _next(self, name: str) -> int:
        position = self.drawn_from.get(name, 0)
        self.drawn_from[name] = position + 1
        return self._passes[name].row(position)

    @override
    def state_dict(self) -> dict[str, Any]:
        return {"drawn": self.drawn, "drawn_from": dict(self.drawn_from)}

    @override
    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.drawn = int(state["drawn"])
        self.drawn_from = {name: int(count) for name, count in state["drawn_from"].items()}
