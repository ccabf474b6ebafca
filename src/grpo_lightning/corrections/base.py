"""The contract of off-policy corrections."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from grpo_lightning.component import Component


@dataclass(frozen=True)
class CorrectionInputs:
    """Trainable steps of whole rows, without gradient: a micro-batch's, or a whole update's on all ranks."""

    old_log_probs_S: Tensor
    """[S] under the trained policy at the start of the rollout's updates."""
    behaviour_log_probs_S: Tensor
    """[S] under the distribution that sampled."""
    row_S: Tensor
    """[S] int64: row of each step, from 0, ascending."""
    lengths_R: Tensor
    """[R] int64: trainable steps of each row, all positive."""
    log_probs_S: Tensor | None = None
    """[S] under the current policy."""
    advantages_S: Tensor | None = None
    """[S] advantages."""
    functionals: Mapping[str, Tensor] = field(default_factory=dict)
    """[S] by name: the functionals that the correction declared, under the current policy."""

    def sum_rows(self, values_S: Tensor) -> Tensor:
        """[R]: sum of each row's steps."""
        return values_S.new_zeros(self.lengths_R.shape[0]).index_add(0, self.row_S, values_S)

    def mean_rows(self, values_S: Tensor) -> Tensor:
        """[R]: mean of each row's steps."""
        return self.sum_rows(values_S) / self.lengths_R


class Correction(Component, ABC):
    """A weight a step, for what the sampler and the trainer disagree on. It multiplies the policy term, not the KL."""

    kind = "correction"
    level: Literal["step", "sequence"] = "step"
    """``sequence`` if all steps of a row get the same weight, so that it goes with losses that have one term a row."""
    functionals: frozenset[str] = frozenset()
    """Functionals of each step's distribution that it needs, without gradient."""
    off_policy: bool = True
    """Weighs the policy that sampled, so that it does not go with a loss that does so itself."""
    whole_update: bool = False
    """It must see all steps of an update at once, on all ranks: a pass without gradient is made before the update."""
    denominator: Literal["original", "remaining"] = "original"
    """What the aggregation counts: all steps, or only those whose weight is not 0 (which asks for ``whole_update``)."""

    @abstractmethod
    def __call__(self, inputs: CorrectionInputs) -> Tensor:
        """[S] weights, non-negative."""
