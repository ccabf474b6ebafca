"""The contract of auxiliary losses: what is trained beside GRPO, or before it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from torch import Tensor

from grpo_lightning.component import Component
from grpo_lightning.policies.base import Policy
from grpo_lightning.types import Prompt, Rollouts


class AuxiliaryLoss(Component, ABC):
    """A loss over rows of its own, with its own normaliser."""

    kind = "auxiliary"

    @abstractmethod
    def rows(self, policy: Policy, prompts: Sequence[Prompt]) -> Rollouts:
        """The rows that the loss trains on, made from rows of its data set."""

    @abstractmethod
    def normaliser(self, rows: Rollouts) -> float:
        """What the sum of :meth:`terms` over the update is divided by."""

    @abstractmethod
    def terms(self, log_probs_S: Tensor) -> Tensor:
        """[S] terms of the trainable steps, before normalisation."""
