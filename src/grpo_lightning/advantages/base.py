"""The contract of advantage estimators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.component import Component
from grpo_lightning.functional.groups import Groups
from grpo_lightning.steps import RolloutSteps
from grpo_lightning.types import RolloutTable


class Advantage(Component, ABC):
    """A function from the whole rollout's table to one advantage a row, or one a step.

    Calling it applies the rules for degenerate groups, in float64, then the formula of :meth:`estimate`:

    - rows that abstain, or have no trainable step, are in no statistic and get 0;
    - if the estimator compares, a group of one and a group whose rewards are equal within
      ``4 * epsilon * max |reward|`` (``epsilon`` of the type the rewards arrived in) get exactly 0;
    - a group with fewer valid rows than :attr:`smallest_group` gets exactly 0.

    An estimator that gives each step a value is a :class:`StepAdvantage`.
    """

    kind = "advantage"
    compares: bool = True
    """Measures deviations inside the group, so it needs at least two members and is 0 where rewards are equal."""
    per: ClassVar[Literal["row", "step"]] = "row"
    """What gets a value."""
    greedy: ClassVar[bool] = False
    """Needs the reward of a greedy completion of every prompt: ``table.greedy_rewards_R``."""
    takes_rewards: Literal["any", "non_negative", "binary"] = "any"
    """Rewards that it has a meaning for; it refuses others by name. ``binary``: 0 and 1."""
    under_shift: Literal["invariant"] | None = None
    """What becomes of the advantages when a constant is added to every reward; ``None`` promises nothing."""
    under_scale: Literal["invariant", "equivariant"] | None = None
    """The same when every reward is multiplied by a positive constant; ``equivariant``: the advantages are, too. Up to a
    constant that the estimator adds where it divides."""
    batch_statistics: bool = False
    """A row's advantage may depend on other groups than its own."""
    functionals: ClassVar[frozenset[str]] = frozenset()
    """Functionals of each step's distribution, under the policy at the start of the updates, that a step estimator needs
    (``log_prob``, ``entropy``, ``sum_of_squares``)."""
    reads_components: ClassVar[bool] = False
    """Reads the scores of single rewards and their weights instead of the composed reward, so gates have no place."""
    takes_penalty: bool = True
    """Has a meaning for rewards that a KL in the reward has lowered; not if it asks for rewards of a certain range."""
    needs_states: ClassVar[bool] = False
    """Needs the environment's keys of states: ``steps.state_S``."""
    columns: Sequence[str] = ()
    """Columns of the data set whose values it tells apart: ``table.labels``."""

    @property
    def smallest_group(self) -> int:
        """Valid rows that a group must have for the formula to have a value."""
        return 2 if self.compares else 1

    def __call__(self, table: RolloutTable, steps: RolloutSteps | None = None) -> Tensor:
        """The advantages, without a change of state.

        Args:
            table: Scalars of all rows, on all ranks.
            steps: This rank's steps, which only a :class:`StepAdvantage` looks at.

        Returns:
            [R] float64 over the rows of ``table``; 0 for rows that are not valid.
        """
        advantages_R = torch.zeros(len(table), dtype=torch.float64)
        rows = table.valid_R.nonzero().squeeze(1)
        if rows.numel() == 0:
            return advantages_R
        valid = table.select(rows)
        groups = Groups.of(valid.group_R)
        values_R = self.estimate(valid.rewards_R.to(torch.float64), groups, valid)
        advantages_R[rows] = torch.where(self.silent(groups, valid)[groups.index_R], 0.0, values_R)
        return advantages_R

    def silent(self, groups: Groups, valid: RolloutTable) -> Tensor:
        """[G] bool: groups of ``valid`` rows that get exactly 0 by the rules for degenerate groups."""
        small_G = groups.sizes_G < self.smallest_group
        if not self.compares:
            return small_G
        return small_G | groups.unanimous(valid.rewards_R.to(torch.float64), valid.reward_epsilon, valid.sizes_R)

    @abstractmethod
    def estimate(self, rewards_R: Tensor, groups: Groups, table: RolloutTable) -> Tensor:
        """[R] float64: the formula, over valid rows only. Need not care for silent groups."""

    def observe(self, table: RolloutTable) -> None:
        """A rollout is final: take over into the state what the next one needs to know. Called once a rollout."""


class StepAdvantage(Advantage):
    """A function from the rollout's table and this rank's steps to one advantage a step.

    Rows that are not valid get 0. The rules for degenerate groups are applied by :meth:`estimate_steps`, where its formula
    has a place for them.
    """

    per = "step"

    @override
    def __call__(self, table: RolloutTable, steps: RolloutSteps | None = None) -> Tensor:
        """[S] float64 over ``steps``, without a change of state; 0 for steps of rows that are not valid.

        Raises:
            ValueError: If it is called without steps.
        """
        if steps is None:
            raise ValueError(f"advantage {self.name!r} gives a value a step, and was called without steps")
        return torch.where(table.valid_R[steps.row_S], self.estimate_steps(table, steps), 0.0)

    @override
    def estimate(self, rewards_R: Tensor, groups: Groups, table: RolloutTable) -> Tensor:
        raise ValueError(f"advantage {self.name!r} gives a value a step, not a row")

    @abstractmethod
    def estimate_steps(self, table: RolloutTable, steps: RolloutSteps) -> Tensor:
        """[S] float64: the formula, over ``steps``. Rows that are not valid must be left out of its statistics."""
