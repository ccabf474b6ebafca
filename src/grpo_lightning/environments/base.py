"""The contract of environments: what happens between turns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from grpo_lightning.component import Component
from grpo_lightning.types import Episode


@dataclass(frozen=True)
class Observation:
    """The environment's answer to a turn."""

    text: str | None = None
    """Shown to the policy before its next turn; ``None`` ends the episode."""
    reward: float | None = None
    """Reward of the turn just written, handed to the reward ``environment``."""
    state: str | None = None
    """Key of the state in which the next turn begins; equal keys, equal states. For credit between turns (GiGPO)."""


class Environment(Component, ABC):
    """Answers the policy's turns. What it writes is masked: never trained, never in a KL, never in a count."""

    kind = "environment"
    deterministic: ClassVar[bool] = True
    """Equal episodes get equal answers. One that draws or asks a server says ``False``: a resumed run is then not the same
    bit for bit."""
    gives_states: bool = False
    """Tells the states in which turns begin, by :meth:`start` and :attr:`Observation.state`."""
    max_turns: int = 1
    """Turns that the policy may write in an episode."""
    max_observation_tokens: int = 0
    """Tokens that one answer may have; longer ones are cut at the end."""

    def start(self, episodes: Sequence[Episode]) -> list[str | None] | None:
        """Episodes begin: called before the first turn of a rollout, with no turns written yet.

        Returns:
            Key of the state in which each episode begins, in order; ``None`` if there are no states to tell.
        """
        return None

    @abstractmethod
    def step(self, episodes: Sequence[Episode]) -> list[Observation]:
        """Answer the last turn of every episode still running, in order. The answer to turn ``max_turns`` is not shown.

        Where ``max_turns`` is 1 it may be called several times, each with the episodes of some groups, while those of others
        are still written.
        """
