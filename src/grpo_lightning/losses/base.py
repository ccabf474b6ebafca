"""The contract of policy losses (surrogates)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from torch import Tensor

from grpo_lightning.component import Component

Scope = Literal["step", "sequence", "group", "update"]


@dataclass(frozen=True)
class LossInputs:
    """A micro-batch as a loss sees it. S counts trainable steps only, R the rows they belong to."""

    log_probs_S: Tensor
    """[S] log-probabilities under the current policy, with gradient."""
    old_log_probs_S: Tensor
    """[S] under the policy at the start of the rollout's updates, without gradient."""
    behaviour_log_probs_S: Tensor
    """[S] under the distribution that sampled, without gradient."""
    advantages_S: Tensor
    """[S] advantages, a row's value repeated over its steps, or one a step."""
    row_S: Tensor
    """[S] int64: row of each step, from 0, ascending."""
    lengths_R: Tensor
    """[R] int64: trainable steps of each row, all positive."""
    group_R: Tensor
    """[R] int64: ordinal of each row's group."""
    functionals: Mapping[str, Tensor] = field(default_factory=dict)
    """[S] by name: the functionals the loss declared."""

    def sum_rows(self, values_S: Tensor) -> Tensor:
        """[R]: sum of each row's steps."""
        return values_S.new_zeros(self.lengths_R.shape[0]).index_add(0, self.row_S, values_S)

    def mean_rows(self, values_S: Tensor) -> Tensor:
        """[R]: mean of each row's steps."""
        return self.sum_rows(values_S) / self.lengths_R

    def row_advantages(self) -> Tensor:
        """[R]: mean of each row's step advantages, which is the row's advantage where its steps share one."""
        return self.mean_rows(self.advantages_S)


@dataclass(frozen=True)
class LossTerms:
    """What a loss returns: terms before any normalisation."""

    terms: Tensor
    """[S] for scope ``step`` and ``update``, [R] for ``sequence``, [number of groups, ascending] for ``group``."""
    step_metrics: Mapping[str, Tensor] = field(default_factory=dict)
    """[S] by name, detached: logged as the mean over the trainable steps that were run in the update."""


class PolicyLoss(Component, ABC):
    """A surrogate: one term per unit of its scope. It never normalises; an aggregation does."""

    kind = "loss"
    scope: ClassVar[Scope] = "step"
    """Unit of a term. ``group`` keeps whole groups in a micro-batch; ``update`` needs a pass over the update first."""
    functionals: ClassVar[frozenset[str]] = frozenset()
    """Functionals of each step's distribution that it needs beside the log-probability."""
    aggregations: ClassVar[frozenset[str] | None] = None
    """Names of legal aggregations; ``None`` for all."""

    @abstractmethod
    def __call__(self, inputs: LossInputs) -> LossTerms:
        """The terms of one micro-batch."""
