"""The scalars of a rollout's rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class RolloutTable:
    """The scalars of every row of a rollout, equal on all ranks: what estimators, transforms and selectors see."""

    group_R: Tensor
    """[R] int64: ordinal of the group in the rollout."""
    prompt_R: Tensor
    """[R] int64: identity of the prompt, which rows of one prompt share: its index where there is one data set."""
    trajectory_R: Tensor
    """[R] int64: episode of the row."""
    member_R: Tensor
    """[R] int64: index of the row in its group."""
    rewards_R: Tensor
    """[R] float64: composed reward; NaN where the row abstains."""
    valid_R: Tensor
    """[R] bool: false for rows that abstain or have no trainable step: they are in no statistic and get no weight."""
    lengths_R: Tensor
    """[R] int64: trainable steps."""
    turns_R: Tensor
    """[R] int64: turns of the row."""
    finish_R: Tensor
    """[R] int64: :class:`~grpo_lightning.types.FinishReason`."""
    components: Mapping[str, Tensor]
    """[R] float64 by reward name: raw scores before weights; NaN where the component abstains or does not apply."""
    reward_epsilon: float = torch.finfo(torch.float64).eps
    """Machine epsilon of the type the rewards arrived in: equality of rewards is judged with it."""
    greedy_rewards_R: Tensor | None = None
    """[R] float64: reward of the greedy completion of the row's prompt, where the estimator asks for one; NaN where that
    completion abstains."""
    weights: Mapping[str, Tensor] = field(default_factory=dict)
    """[R] float64 by reward name: weight of the score in the composed reward of the row, 0 where it is left out."""
    parts_R: Tensor | None = None
    """[R] float64: sum of the magnitudes that were added up to the reward, where there were several."""
    labels: Mapping[str, Tensor] = field(default_factory=dict)
    """[R] int64 by column of the data set: equal for equal values, for the columns that the estimator asks for."""

    def __len__(self) -> int:
        return self.group_R.shape[0]

    @property
    def sizes_R(self) -> Tensor:
        """[R] float64: what rounding of a reward is relative to: its parts, which may be larger than their sum."""
        sizes_R = self.rewards_R.to(torch.float64).abs()
        return sizes_R if self.parts_R is None else torch.maximum(sizes_R, self.parts_R.nan_to_num(nan=0.0))

    @classmethod
    def of(
        cls,
        rewards: Sequence[float | None] | Tensor,
        groups: Sequence[int] | Tensor,
        *,
        lengths: Sequence[int] | Tensor | None = None,
        **given: Any,
    ) -> RolloutTable:
        """A table of single-turn rows from their rewards and groups, to use an estimator by itself.

        Args:
            rewards: [R] composed rewards; ``None`` or NaN abstains. Equality is judged by the type of a tensor.
            groups: [R] group of each row.
            lengths: [R] trainable steps, 1 each by default.
            **given: Any further field by its name.

        Raises:
            ValueError: If their numbers differ, or a reward is infinite.

        Example:
            >>> from grpo_lightning.types import RolloutTable
            >>> RolloutTable.of([1.0, None, 0.0], [0, 0, 1], lengths=[3, 2, 0]).valid_R.tolist()
            [True, False, False]
        """
        epsilon = torch.finfo(torch.float64).eps
        if isinstance(rewards, Tensor):
            epsilon = torch.finfo(rewards.dtype).eps if rewards.is_floating_point() else epsilon
        else:
            rewards = torch.tensor([torch.nan if each is None else each for each in rewards], dtype=torch.float64)
        group_R = torch.as_tensor(groups, dtype=torch.int64)
        if rewards.shape != group_R.shape:
            raise ValueError(f"{rewards.shape[0]} rewards and {group_R.shape[0]} groups: give one of each a row")
        if bool(rewards.isinf().any()):
            raise ValueError("a reward is not finite: only None or NaN abstains")
        row_R, zero_R = torch.arange(len(group_R)), torch.zeros_like(group_R)
        lengths_R = torch.ones_like(group_R) if lengths is None else torch.as_tensor(lengths, dtype=torch.int64)
        member_R = torch.tensor([int((group_R[:row] == group).sum()) for row, group in enumerate(group_R)]).long()
        made: dict[str, Any] = {
            "group_R": group_R,
            "prompt_R": group_R,
            "trajectory_R": row_R,
            "member_R": member_R,
            "rewards_R": rewards.to(torch.float64),
            "valid_R": torch.isfinite(rewards) & (lengths_R > 0),
            "lengths_R": lengths_R,
            "turns_R": zero_R + 1,
            "finish_R": zero_R,
            "components": {},
            "reward_epsilon": epsilon,
        }
        return cls(**made | given)

    def select(self, rows: Tensor) -> RolloutTable:
        """The rows ``rows``, in that order."""
        changed: dict[str, Any] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, Tensor):
                changed[item.name] = value[rows]
            elif isinstance(value, Mapping):
                changed[item.name] = {name: each[rows] for name, each in value.items()}
        return replace(self, **changed)

    @staticmethod
    def cat(parts: Sequence[RolloutTable]) -> RolloutTable:
        """The rows of all ``parts``, in order."""
        merged: dict[str, Any] = {}
        for item in fields(RolloutTable):
            value = getattr(parts[0], item.name)
            if isinstance(value, Tensor):
                merged[item.name] = torch.cat([getattr(part, item.name) for part in parts])
            elif isinstance(value, Mapping):
                merged[item.name] = {
                    name: torch.cat([getattr(part, item.name)[name] for part in parts]) for name in value
                }
        return RolloutTable(reward_epsilon=max(part.reward_epsilon for part in parts), **merged)
