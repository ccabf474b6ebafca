from __future__ import annotations

from grpo_lightning.environments.base import Observation
from grpo_lightning.environments.single_turn import SingleTurn
from grpo_lightning.types import Episode, Prompt


def test_every_episode_ends_after_one_turn() -> None:
    environment = SingleTurn()
    episodes = [Episode(Prompt("train", 0, "x", {}), 0, member) for member in range(3)]
    assert environment.step(episodes) == [Observation(None)] * 3
    assert environment.max_turns == 1
