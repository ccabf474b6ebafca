from __future__ import annotations

from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.environment import EnvironmentReward
from grpo_lightning.rewards.runner import score_entries


def test_sum_of_what_the_environment_gave(episodes) -> None:
    rows = episodes([["a", "b"], ["a", "b"], ["a"], None])
    rows[0].turns[0].reward, rows[0].turns[1].reward = 0.5, 2.0
    rows[1].turns[1].reward = -1.0
    scores = score_entries([RewardEntry(reward=EnvironmentReward())], rows, update=0, stage="train")
    assert scores.raw == {"environment": [2.5, -1.0, None, None]}
    assert scores.turn_scores == {"environment": [[0.5, 2.0], [None, -1.0], [None], []]}
