"""Prompts in a new order on every pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from grpo_lightning.curricula.base import Curriculum
from grpo_lightning.curricula.pool import check_sizes, locate
from grpo_lightning.functional.seeding import addressed_permutation


class Shuffled(Curriculum):
    """Rows of all data sets pooled, every one of them once a pass, in an order that is a function of (seed, pass)."""

    name = "shuffled"

    def __init__(self) -> None:
        self.drawn = 0
        self._order: tuple[int, list[int]] = (-1, [])

    @override
    def bind(self, sizes: Mapping[str, int], seed: int) -> None:
        check_sizes(sizes)
        super().bind(sizes, seed)
        self._order = (-1, [])

    @override
    def draw(self, n: int) -> list[tuple[str, int]]:
        """The next ``n`` prompts, as (data set, index)."""
        total = sum(self.sizes.values())
        drawn = []
        for position in range(self.drawn, self.drawn + n):
            number, place = divmod(position, total)
            if self._order[0] != number:
                self._order = (number, addressed_permutation(self.seed, "curriculum", (number,), total).tolist())
            drawn.append(locate(self.sizes, self._order[1][place]))
        self.drawn += n
        return drawn

    @override
    def state_dict(self) -> dict[str, Any]:
        return {"drawn": self.drawn}

    @override
    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.drawn = int(state["drawn"])
