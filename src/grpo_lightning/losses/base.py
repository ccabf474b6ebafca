"""The contract of policy losses (surrogates)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from torch import Tensor

from grpo_lightning.component import Component
from grpo_lightning.steps import UpdateSteps

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
    plan_S: Tensor | None = None
    """[S] what :meth:`PolicyLoss.plan` said of these steps, for scope ``update``."""
    rewards_R: Tensor | None = None
    """[R] composed reward of each row."""
    behaviour_version_R: Tensor | None = None
    """[R] int64: updates that the weights had seen which sampled the row."""
    old_version: int = 0
    """Updates that the weights had seen at the start of the rollout's updates."""
    version: int = 0
    """Updates that the current weights have seen."""

    def sum_rows(self, values_S: Tensor) -> Tensor:
        """[R]: sum of each row's steps."""
        return values_S.new_zeros(self.lengths_R.shape[0]).index_add(0, self.row_S, values_S)

    def mean_rows(self, values_S: Tensor) -> Tensor:
        """[R]: mean of each row's steps."""
        return self.sum_rows(values_S) / self.lengths_R

    def row_advantages(self) -> Tensor:
        """[R]: mean of each row's step advantages, which is the row's advantage where its steps share one.

        Summed in float64: a long float32 sum of equal numbers is off by far more than one rounding.
        """
        return self.mean_rows(self.advantages_S.double()).to(self.advantages_S.dtype)


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
    scope: Scope = "step"
    """Unit of a term. ``group`` keeps whole groups in a micro-batch; ``update`` needs a pass over the update first."""
    functionals: ClassVar[frozenset[str]] = frozenset()
    """Functionals of each step's distribution that it needs beside the log-probability."""
    aggregations: ClassVar[frozenset[str] | None] = None
    """Names of legal aggregations; ``None`` for all."""
    why_aggregations: ClassVar[str] = ""
    """Why only these aggregations have a meaning."""
    weighs_sampler: ClassVar[bool] = False
    """Holds its own weight against the policy that sampled, so that a correction would weigh twice."""
    runs_silent: bool = False
    """Has a term, or a gradient, at steps of advantage 0."""

    @abstractmethod
    def __call__(self, inputs: LossInputs) -> LossTerms:
        """The terms of one micro-batch."""

    def plan(self, update: UpdateSteps) -> Tensor:
        """[S] one value a step of a whole update, for scope ``update``: each step's comes back as ``inputs.plan_S``.

        It is computed once, before the update's first micro-batch, from a pass without gradient.
        """
        raise TypeError(f"loss {self.name!r} looks at no whole update")


def bounded_exp(log_ratio_S: Tensor) -> Tensor:
    """``exp(log_ratio)``, held at a value far below overflow while its gradient goes on.

    The bound is ``exp(log(largest number) / 2)``: about 1e19 in float32 and 1e154 in float64. Above it the value is the
    bound and the gradient the bound times that of ``log_ratio``, so that ``0 * ratio`` is 0 and no gradient is NaN.

    Args:
        log_ratio_S: [S] float32 or wider.
    """
    bound = math.log(torch.finfo(log_ratio_S.dtype).max) / 2
    return (log_ratio_S - (log_ratio_S.detach() - bound).clamp(min=0)).exp()
