"""Prompts in the order of the data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from grpo_lightning.curricula.base import Curriculum
from grpo_lightning.curricula.pool import check_sizes, locate


class Sequential(Curriculum):
    """Rows in order, one data set after the other, and again from the start."""

    name = "sequential"

    def __init__(self) -> None:
        self.drawn = 0

    @override
    def bind(self, sizes: Mapping[str, int], seed: int) -> None:
        check_sizes(sizes)
        super().bind(sizes, seed)

    @override
    def draw(self, n: int) -> list[tuple[str, int]]:
        """The next ``n`` prompts, as (data set, index)."""
        total = sum(self.sizes.values())
        drawn = [locate(self.sizes, position % total) for position in range(self.drawn, self.drawn + n)]
        self.drawn += n
        return drawn

    @override
    def state_dict(self) -> dict[str, Any]:
        return {"drawn": self.drawn}

    @override
    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.drawn = int(state["drawn"])
