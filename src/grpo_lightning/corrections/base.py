"""The contract of off-policy corrections."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor

from grpo_lightning.component import Component


@dataclass(frozen=True)
class CorrectionInputs:
    """Trainable steps of some rows, without gradient."""

    old_log_probs_S: Tensor
    """[S] under the trained policy at the start of the rollout's updates."""
    behaviour_log_probs_S: Tensor
    """[S] under the distribution that sampled."""
    row_S: Tensor
    """[S] int64: row of each step, from 0, ascending."""
    lengths_R: Tensor
    """[R] int64: trainable steps of each row."""


class Correction(Component, ABC):
    """A weight a step for what the sampler and the trainer disagree on. It multiplies the policy term, not the KL."""

    kind = "correction"

    @abstractmethod
    def __call__(self, inputs: CorrectionInputs) -> Tensor:
        """[S] weights, non-negative."""
