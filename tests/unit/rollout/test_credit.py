"""What each step earns, and what a step-level estimator is shown of a rollout."""

from __future__ import annotations

import torch

from grpo_lightning.rollout.credit import Credit, rollout_steps, step_rewards
from grpo_lightning.rollout.table import GatheredTable, gather_table, key, local_table
from grpo_lightning.types import Episode, FinishReason, Ragged, Rollouts, Turn
from helpers.tiny_policy import text_prompt


def two_rows() -> Rollouts:
    """Row 0: two steps, one of the environment, one step. Row 1: one step, one of the environment, two steps."""
    index = torch.arange(2)
    return Rollouts(
        prompts=Ragged.from_list([[5]], torch.int64),
        prompt_R=torch.zeros(2, dtype=torch.int64),
        group_R=torch.full((2,), 3),
        member_R=index,
        trajectory_R=6 + index,
        attempt_R=torch.zeros(2, dtype=torch.int64),
        finish_R=torch.zeros(2, dtype=torch.int64),
        temperature_R=torch.ones(2),
        version_R=torch.zeros(2, dtype=torch.int64),
        actions=Ragged.from_list([[1, 2, 3, 4], [5, 6, 7, 8]], torch.int64),
        trainable_S=torch.tensor([True, True, False, True, True, False, True, True]),
        turn_S=torch.tensor([0, 0, 0, 1, 0, 0, 1, 1]),
        behaviour_log_probs_S=-torch.arange(8.0),
    )


def episodes(states: list[list[str | None]]) -> list[Episode]:
    return [
        Episode(text_prompt(color=row), 3, row, [Turn([1], "a", FinishReason.STOP, state=state) for state in each])
        for row, each in enumerate(states)
    ]


def test_a_turn_earns_at_the_last_step_that_the_policy_wrote_in_it() -> None:
    earned = step_rewards(two_rows(), [[0.5, 1.0], [0.25, -2.0]], None)
    assert earned.tolist() == [0, 0.5, 0, 1.0, 0.25, 0, 0, -2.0]


def test_what_a_step_pays_is_taken_from_what_it_earns() -> None:
    penalty = torch.tensor([0.1, 0.2, 0, 0.3, 0.4, 0, 0.5, 0.6], dtype=torch.float64)
    earned = step_rewards(two_rows(), [[0.0, 1.0], [0.0, 2.0]], penalty)
    torch.testing.assert_close(earned.tolist(), [-0.1, -0.2, 0.0, 0.7, -0.4, 0.0, -0.5, 1.4], rtol=0, atol=1e-15)


def test_an_estimator_sees_the_steps_of_the_policy_without_those_between() -> None:
    rollouts, played = two_rows(), episodes([["a", "b"], ["b", None]])
    table = local_table(rollouts, played, torch.zeros(2, dtype=torch.float64), {}, 0.0)
    gathered = GatheredTable(gather_table(table).table, slice(4, 6))
    credit = Credit(torch.arange(8.0).double(), {"log_prob": 10 + torch.arange(8.0).double()})
    steps = rollout_steps(rollouts, played, gathered, credit)
    assert steps.row_S.tolist() == [4, 4, 4, 5, 5, 5]
    assert steps.turn_S.tolist() == [0, 0, 1, 0, 1, 1]
    assert steps.rewards_S.tolist() == [0, 1, 3, 4, 6, 7]
    assert steps.functionals["log_prob"].tolist() == [10, 11, 13, 14, 16, 17]
    assert steps.behaviour_log_probs_S is not None
    assert steps.behaviour_log_probs_S.tolist() == [0, -1, -3, -4, -6, -7]
    assert steps.state_S is not None
    assert steps.state_S.tolist() == [key("a"), key("a"), key("b"), key("b"), -1, -1]
    assert steps.positions().tolist() == [0, 1, 2, 0, 1, 2]


def test_without_states_there_are_none() -> None:
    rollouts, played = two_rows(), episodes([[None, None], [None, None]])
    table = local_table(rollouts, played, torch.zeros(2, dtype=torch.float64), {}, 0.0)
    steps = rollout_steps(rollouts, played, gather_table(table), Credit(torch.zeros(8).double(), {}))
    assert steps.state_S is None


def test_moments_are_over_masked_steps_of_all_ranks() -> None:
    rollouts, played = two_rows(), episodes([[None, None], [None, None]])
    table = local_table(rollouts, played, torch.zeros(2, dtype=torch.float64), {}, 0.0)
    steps = rollout_steps(rollouts, played, gather_table(table), Credit(torch.zeros(8).double(), {}))
    values = torch.tensor([1.0, 2.0, 3.0, 6.0, 99.0, 99.0]).double()
    mask = torch.tensor([True, True, True, True, False, False])
    mean, std = steps.moments(values, mask)
    assert (float(mean), float(std)) == (3.0, (14 / 3) ** 0.5)
    assert [float(each) for each in steps.moments(values, torch.zeros(6, dtype=torch.bool))] == [0.0, 0.0]


def test_columns_that_an_estimator_tells_apart_have_equal_labels_for_equal_values() -> None:
    played = [*episodes([["a"]]), *episodes([["a"]]), Episode(text_prompt(color="blue"), 3, 2)]
    rollouts = Rollouts.cat([two_rows(), two_rows()]).select(torch.arange(3))
    table = local_table(rollouts, played, torch.zeros(3, dtype=torch.float64), {}, 0.0, columns=["color"])
    first, second, third = table.labels["color"].tolist()
    assert first == second == key(0) != third == key("blue")
    assert min(first, third) >= 0
