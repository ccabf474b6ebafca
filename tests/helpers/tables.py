"""Reward tables for tests of estimators, transforms and selectors."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from grpo_lightning.types import RolloutTable


def reward_table(
    groups: Sequence[Sequence[float | None]],
    *,
    dtype: torch.dtype = torch.float64,
    lengths: Sequence[int] | None = None,
) -> RolloutTable:
    """A table with one group a list of ``groups``; ``None`` abstains. Rewards arrive in ``dtype``."""
    flat = [float("nan") if reward is None else reward for group in groups for reward in group]
    rewards = torch.tensor(flat, dtype=torch.float64).to(dtype).to(torch.float64)
    group = torch.tensor([g for g, rows in enumerate(groups) for _ in rows], dtype=torch.int64)
    member = torch.tensor([m for rows in groups for m in range(len(rows))], dtype=torch.int64)
    steps = torch.tensor(lengths if lengths is not None else [3] * len(flat), dtype=torch.int64)
    return RolloutTable(
        group_R=group,
        prompt_R=group.clone(),
        trajectory_R=torch.arange(len(flat)),
        member_R=member,
        rewards_R=rewards,
        valid_R=~rewards.isnan() & (steps > 0),
        lengths_R=steps,
        turns_R=torch.ones_like(steps),
        finish_R=torch.zeros_like(steps),
        components={},
        reward_epsilon=torch.finfo(dtype).eps,
    )
