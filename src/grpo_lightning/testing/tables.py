"""Made-up rollouts: what estimators, transforms, selectors and curricula are tried on."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from grpo_lightning.steps import RolloutSteps
from grpo_lightning.types import Ragged, Rollouts, RolloutTable

Rewards = Sequence[Sequence[float | None]]
"""Rewards by group; ``None`` abstains."""
UNEVEN: Rewards = (
    (1.0, 0.0, 0.5, 0.25),
    (0.3,),
    (0.1, 0.1, 0.1),
    (2.0, None, -1.0),
    (0.7, 0.2, 0.9, 0.4, 0.6),
    (None, None),
    (1.5, 0.5),
)
"""Groups of 1 to 5 rows: alone, unanimous, with rows that abstain, and all abstaining."""


def reward_table(
    groups: Rewards, *, lengths: Sequence[int] | None = None, greedy: float = 0.5, columns: Sequence[str] = ()
) -> RolloutTable:
    """The scalars of a rollout, with every optional field that an estimator may ask for.

    Args:
        groups: Rewards by group.
        lengths: Trainable steps of each row; by default 1 to 5 in turn. Rows of 4 steps and more have two turns.
        greedy: Reward of every prompt's greedy completion.
        columns: Columns of the data set that have labels.
    """
    flat = [reward for group in groups for reward in group]
    group_R = torch.tensor([index for index, group in enumerate(groups) for _ in group], dtype=torch.int64)
    lengths_R = torch.tensor(lengths if lengths is not None else [1 + row * 3 % 5 for row in range(len(flat))])
    rewards_R = torch.tensor([torch.nan if reward is None else reward for reward in flat], dtype=torch.float64)
    half_R = torch.where(rewards_R.isnan(), 0.0, torch.full_like(rewards_R, 0.5))
    return RolloutTable.of(
        rewards_R,
        group_R,
        lengths=lengths_R,
        turns_R=1 + (lengths_R >= 4).to(torch.int64),
        # Two rewards that agree, so that the composed one is their weighted sum.
        components={"one": rewards_R.clone(), "other": -rewards_R},
        weights={"one": half_R, "other": -half_R},
        greedy_rewards_R=torch.full_like(rewards_R, greedy),
        labels={name: (group_R + place) % 2 for place, name in enumerate(columns)},
    )


def steps_of(table: RolloutTable) -> RolloutSteps:
    """The trainable steps of a table's rows, each earning its reward at its last step; functions of group, member, position."""
    row_S = torch.repeat_interleave(torch.arange(len(table)), table.lengths_R)
    last_R = table.lengths_R.cumsum(0) - 1
    position_S = torch.arange(row_S.shape[0]) - (last_R - table.lengths_R + 1)[row_S]
    rewards_S = torch.zeros(row_S.shape[0], dtype=torch.float64)
    written_R = table.lengths_R > 0
    rewards_S[last_R[written_R]] = table.rewards_R[written_R].nan_to_num(nan=0.0)
    key_S = table.group_R[row_S] * 7 + table.member_R[row_S] * 3 + position_S * 5
    log_probs_S = -0.1 - (key_S % 11).to(torch.float64) / 5
    probs_S = log_probs_S.exp()
    turn_S = ((position_S >= 2) & (table.turns_R[row_S] > 1)).to(torch.int64)
    return RolloutSteps(
        row_S,
        turn_S,
        rewards_S,
        {
            "log_prob": log_probs_S,
            "entropy": 0.2 + (key_S % 5).to(torch.float64),
            "sum_of_squares": probs_S**2 + (1 - probs_S) ** 2 / 2,
        },
        log_probs_S - 0.05,
        table.group_R[row_S] * 10 + turn_S,
    )


def rollouts_of(table: RolloutTable) -> Rollouts:
    """Rows that have the steps of a table, a step a token."""
    steps, rows = steps_of(table), len(table)
    prompts_R, prompt_R = torch.unique(table.prompt_R, return_inverse=True)
    return Rollouts(
        prompts=Ragged.from_list([torch.tensor([3, 4 + index]) for index in range(len(prompts_R))], torch.int64),
        prompt_R=prompt_R,
        group_R=table.group_R,
        member_R=table.member_R,
        trajectory_R=table.trajectory_R,
        attempt_R=torch.zeros(rows, dtype=torch.int64),
        finish_R=table.finish_R,
        temperature_R=torch.ones(rows),
        version_R=torch.zeros(rows, dtype=torch.int64),
        actions=Ragged.from_list([torch.arange(length) + 2 for length in table.lengths_R.tolist()], torch.int64),
        trainable_S=torch.ones_like(steps.row_S, dtype=torch.bool),
        turn_S=steps.turn_S,
        behaviour_log_probs_S=steps.functionals["log_prob"].float(),
    )


def advantages_of(table: RolloutTable) -> Tensor:
    """[R] float64: rewards minus their group's mean over valid rows, 0 for the others."""
    advantages_R = torch.zeros(len(table), dtype=torch.float64)
    for group in torch.unique(table.group_R):
        rows = (table.group_R == group) & table.valid_R
        advantages_R[rows] = table.rewards_R[rows] - table.rewards_R[rows].mean()
    # A unanimous group is silent exactly.
    return torch.where(advantages_R.abs() < 1e-9, 0.0, advantages_R)


def shuffled_rows(table: RolloutTable) -> Tensor:
    """[R] int64: another order of a table's rows, groups mixed."""
    return torch.tensor(sorted(range(len(table)), key=lambda row: (row * 5 % 7, -row)))
