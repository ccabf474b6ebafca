"""The contract of selectors: which groups train."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from grpo_lightning.component import Component
from grpo_lightning.types import RolloutTable


@dataclass(frozen=True)
class Selection:
    """What a selector decides in one round."""

    keep_R: Tensor
    """[R] bool over the rows of the table: rows that train. Rows dropped leave every normaliser."""
    redraw: Tensor
    """int64: ordinals of groups to draw again before training; empty to go on."""
    prompts: Literal["same", "fresh"] = "same"
    """Whether groups are drawn again with their own prompt or with the next one of the curriculum."""


class Selector(Component, ABC):
    """Decides on final advantages, equally on all ranks, in a bounded number of rounds."""

    kind = "selector"

    def largest_group(self, group_size: int) -> int:
        """Rows of a group of ``group_size`` over which advantages are computed, at most.

        Raises:
            ConfigError: If the selector has no meaning for such groups, naming its argument.
        """
        return group_size

    def subset(self, table: RolloutTable) -> Tensor:
        """[R] bool: rows over which advantages are computed, chosen before they are; all valid ones by default.

        The others get no advantage and do not train.
        """
        return table.valid_R

    @abstractmethod
    def __call__(self, advantages_R: Tensor, table: RolloutTable, attempt: int) -> Selection:
        """Decide which rows train and which groups are drawn again.

        Args:
            advantages_R: [R] float64: final advantages; for step-level advantages the one of largest magnitude.
            table: Scalars of all rows, on all ranks.
            attempt: Rounds of drawing again that have already happened: 0 at first. Must stop asking at some number.
        """
