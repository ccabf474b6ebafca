"""Prompts in a new order on every pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from grpo_lightning.curricula.base import Curriculum
from grpo_lightning.curricula.pool import check_sizes, locate
from grpo_lightning.functional.passes import Passes


class Shuffled(Curriculum):
    """Rows of all data sets pooled, every one of them once a pass, in an order that is a function of (seed, pass)."""

    name = "shuffled"

    def __init__(self) -> None:
        self.drawn = 0
        self._passes: Passes | None = None

    @override
    def bind(self, sizes: Mapping[str, int], seed: int) -> None:
        check_sizes(sizes)
        super().bind(sizes, seed)
        self._passes = Passes(seed, "curriculum", sum(sizes.values()))

    @override
    def draw(self, n: int) -> list[tuple[str, int]]:
        """The next ``n`` prompts, as (data set, index)."""
        assert self._passes is not None, "bind comes before draw"
        rows = [self._passes.row(position) for position in range(self.drawn, self.drawn + n)]
        self.drawn += n
        return [locate(self.sizes, row) for row in rows]

    @override
    def state_dict(self) -> dict[str, Any]:
        return {"drawn": self.drawn}

    @override
    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.drawn = int(state["drawn"])
