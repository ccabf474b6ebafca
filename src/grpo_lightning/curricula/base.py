"""The contract of curricula: which prompts come next."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from grpo_lightning.component import Component
from grpo_lightning.types import RolloutTable


class Curriculum(Component, ABC):
    """Draws prompts, identically on all ranks; what decides the next draw is in its state."""

    kind = "curriculum"
    sizes: Mapping[str, int]
    seed: int

    def bind(self, sizes: Mapping[str, int], seed: int) -> None:
        """Say what there is to draw from, before the first draw.

        Args:
            sizes: Rows of each data set, by name, in order.
            seed: Seed of the run.

        Raises:
            ConfigError: If the curriculum's settings do not fit these data sets.
        """
        self.sizes, self.seed = dict(sizes), seed

    @abstractmethod
    def draw(self, n: int) -> list[tuple[str, int]]:
        """The next ``n`` prompts, as (data set, index)."""

    def observe(self, prompts: list[tuple[str, int]], table: RolloutTable) -> None:
        """Learn how the drawn prompts went. ``prompts[g]`` is the prompt of group ordinal ``g`` in ``table``."""
