"""The contract of advantage transforms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

from torch import Tensor

from grpo_lightning.component import Component
from grpo_lightning.types import Rollouts, RolloutTable


class Transform(Component, ABC):
    """Credit assigned after the estimator. Transforms run in the order in which the configuration lists them."""

    kind = "transform"
    level: ClassVar[Literal["row", "step"]] = "row"
    """What it takes and returns: ``row``, [R] over the rows of all ranks; ``step``, [S] over the steps of this rank.
    A row transform cannot follow a step transform."""
    keeps_zero: bool = True
    """An advantage of 0 stays exactly 0, so that a group that says nothing costs nothing. Rows that are not valid stay 0 in any
    case."""

    @abstractmethod
    def __call__(self, advantages: Tensor, table: RolloutTable, rollouts: Rollouts) -> Tensor:
        """New advantages, of the shape of ``advantages``.

        Args:
            advantages: [R] (rows of ``table``) or [S] (steps of ``rollouts``), float64, see :attr:`level`.
            table: Scalars of all rows, on all ranks.
            rollouts: This rank's rows, with their steps.
        """
