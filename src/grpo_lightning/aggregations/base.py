"""The contract of aggregations: how terms become one scalar."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor

from grpo_lightning.component import Component


@dataclass(frozen=True)
class UpdateRows:
    """The rows that an update's normalisers count, on all ranks: rows with at least one trainable step, not masked from
    the loss and not removed by the selector. Rows of advantage 0 are among them."""

    lengths_R: Tensor
    """[R] int64: trainable steps, all positive."""
    group_R: Tensor
    """[R] int64: ordinal of the row's group."""


class Aggregation(Component, ABC):
    """A weight for every trainable step of an update: the loss is ``sum_i w_i sum_t term_it``.

    The weights are computed over the whole update, on all ranks, when the buffer is filled; micro-batches only sum. A
    loss of scope ``sequence`` has one term a row: it counts as that term at every step, so its weight is ``w_i l_i``.
    """

    kind = "aggregation"

    @abstractmethod
    def step_weights(self, rows: UpdateRows) -> Tensor:
        """[R] float64: ``w_i``, the weight of each trainable step of row ``i``."""
