"""No environment: every episode is one turn."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override

from grpo_lightning.environments.base import Environment, Observation
from grpo_lightning.types import Episode


class SingleTurn(Environment):
    """Ends every episode after its first turn."""

    name = "single_turn"

    @override
    def step(self, episodes: Sequence[Episode]) -> list[Observation]:
        """One observation an episode, all of them the end."""
        return [Observation(None) for _ in episodes]
