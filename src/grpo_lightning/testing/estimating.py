"""Asking an estimator for advantages, as a rollout does."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from grpo_lightning.advantages.base import Advantage, StepAdvantage
from grpo_lightning.steps import RolloutSteps
from grpo_lightning.testing.tables import UNEVEN, Rewards, reward_table, steps_of
from grpo_lightning.types import RolloutTable

CLOSE = 1e-9


def adapted_rewards(advantage: Advantage, groups: Rewards) -> list[list[float | None]]:
    """The rewards, as the estimator takes them."""

    def adapted(reward: float | None) -> float | None:
        if reward is None or advantage.takes_rewards == "any":
            return reward
        return abs(reward) if advantage.takes_rewards == "non_negative" else float(reward >= 0.5)

    return [[adapted(reward) for reward in group] for group in groups]


def rollout_for(advantage: Advantage, factor: float = 1.0, constant: float = 0.0) -> RolloutTable:
    """A rollout of uneven groups, every reward multiplied and shifted; one row has no step."""
    moved = [
        [None if r is None else r * factor + constant for r in group] for group in adapted_rewards(advantage, UNEVEN)
    ]
    lengths = [1 + row * 3 % 5 for row in range(sum(map(len, moved)))]
    lengths[12] = 0
    return reward_table(moved, lengths=lengths, greedy=0.5 * factor + constant, columns=advantage.columns)


def ask(advantage: Advantage, table: RolloutTable, steps: RolloutSteps | None = None) -> Tensor:
    """The advantages, one a row or a step."""
    if isinstance(advantage, StepAdvantage):
        return advantage(table, steps_of(table) if steps is None else steps)
    return advantage(table)


def by_row(advantage: Advantage, table: RolloutTable) -> list[Tensor]:
    """The advantages of each row: one, or one a step."""
    values = ask(advantage, table)
    if isinstance(advantage, StepAdvantage):
        return list(torch.split(values, table.lengths_R.tolist()))
    return list(values[:, None])


def apart(left: Sequence[Tensor], right: Sequence[Tensor], tolerance: float = CLOSE) -> str | None:
    """Where the advantages of two sets of rows differ by more than ``tolerance`` of the largest; ``None`` if nowhere."""
    largest = max([float(values.abs().max()) for values in left if values.numel()], default=0.0)
    for row, (one, other) in enumerate(zip(left, right, strict=True)):
        if not torch.allclose(one, other, rtol=0, atol=tolerance * max(largest, tolerance)):
            return f"row {row} has {other.tolist()} instead of {one.tolist()}"
    return None
