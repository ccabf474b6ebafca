"""The contract of advantage estimators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

import torch
from torch import Tensor

from grpo_lightning.component import Component
from grpo_lightning.functional.groups import Groups
from grpo_lightning.types import RolloutTable


class Advantage(Component, ABC):
    """A function from the whole rollout's table to one advantage a row.

    Calling it applies the rules for degenerate groups, in float64, then the formula of :meth:`estimate`:

    - rows that abstain, or have no trainable step, are in no statistic and get 0;
    - if the estimator compares, a group of one and a group whose rewards are equal within
      ``4 * epsilon * max |reward|`` (``epsilon`` of the type the rewards arrived in) get exactly 0.
    """

    kind = "advantage"
    compares: ClassVar[bool] = True
    """Measures deviations inside the group, so it needs at least two members and is 0 where rewards are equal."""
    per: ClassVar[Literal["row", "step"]] = "row"
    """What gets a value. A ``step`` estimator overrides :meth:`estimate_steps`."""

    def __call__(self, table: RolloutTable) -> Tensor:
        """[R] float64: the advantage of every row of ``table``, 0 for rows that are not valid."""
        advantages_R = torch.zeros(len(table), dtype=torch.float64)
        rows = table.valid_R.nonzero().squeeze(1)
        if rows.numel() == 0:
            return advantages_R
        valid = table.select(rows)
        groups = Groups.of(valid.group_R)
        rewards_R = valid.rewards_R.to(torch.float64)
        values_R = self.estimate(rewards_R, groups, valid)
        if self.compares:
            silent_G = groups.unanimous(rewards_R, table.reward_epsilon) | (groups.sizes_G < 2)
            values_R = torch.where(silent_G[groups.index_R], 0.0, values_R)
        advantages_R[rows] = values_R
        return advantages_R

    @abstractmethod
    def estimate(self, rewards_R: Tensor, groups: Groups, table: RolloutTable) -> Tensor:
        """[R] float64: the formula, over valid rows only. Need not care for silent groups if :attr:`compares`."""
