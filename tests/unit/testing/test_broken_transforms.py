"""Transforms with one fault each: every one fails its own check and no other."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from grpo_lightning.testing import transforms
from grpo_lightning.transforms.base import Transform
from grpo_lightning.types import Rollouts, RolloutTable
from helpers.failures import assert_fails_only, failures


class Doubles(Transform):
    """Twice the advantage: a sound one."""

    name = "doubles"

    def __call__(self, advantages: Tensor, table: RolloutTable, rollouts: Rollouts) -> Tensor:
        return advantages * 2


class ShrinksSteps(Transform):
    """A step's advantage divided by its row's length: a sound one of steps."""

    name = "shrinks_steps"
    level = "step"

    def __call__(self, advantages: Tensor, table: RolloutTable, rollouts: Rollouts) -> Tensor:
        return advantages / rollouts.lengths_R[rollouts.row_S]


class SinglePrecision(Transform):
    """Gives float32."""

    name = "single_precision"

    def __call__(self, advantages: Tensor, table: RolloutTable, rollouts: Rollouts) -> Tensor:
        return advantages.float()


class LiftsAll(Transform):
    """Adds something to every row, those that abstain included."""

    name = "lifts_all"
    keeps_zero = False

    def __call__(self, advantages: Tensor, table: RolloutTable, rollouts: Rollouts) -> Tensor:
        return advantages + 0.5


class LiftsValid(Transform):
    """Adds something to valid rows, and does not say that zeros do not stay."""

    name = "lifts_valid"

    def __call__(self, advantages: Tensor, table: RolloutTable, rollouts: Rollouts) -> Tensor:
        return advantages + 0.5 * table.valid_R


class ByPlace(Transform):
    """Weighs rows by where they stand."""

    name = "by_place"

    def __call__(self, advantages: Tensor, table: RolloutTable, rollouts: Rollouts) -> Tensor:
        return advantages * (1 + torch.arange(len(table)))


class Tires(Transform):
    """Gives less at every call."""

    name = "tires"

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, advantages: Tensor, table: RolloutTable, rollouts: Rollouts) -> Tensor:
        self.calls += 1
        return advantages / self.calls


class InPlace(Transform):
    """Writes into the tensor that it is given."""

    name = "in_place"

    def __call__(self, advantages: Tensor, table: RolloutTable, rollouts: Rollouts) -> Tensor:
        return advantages.mul_(2)


class DrawsForAll(Transform):
    """Draws from the random numbers that all share."""

    name = "draws_for_all"

    def __call__(self, advantages: Tensor, table: RolloutTable, rollouts: Rollouts) -> Tensor:
        np.random.rand()
        return advantages * 2


BROKEN = [
    (SinglePrecision, "gives_finite_numbers", "A transform returns float64"),
    (LiftsAll, "leaves_invalid_rows_nothing", "multiply by table.valid_R"),
    (LiftsValid, "keeps_zero", "say keeps_zero = False"),
    (ByPlace, "goes_with_the_rows", "find a row's group by table.group_R"),
    (Tires, "does_not_change_by_being_asked", "keep no count of calls"),
    (InPlace, "leaves_what_it_is_given_alone", "return a new tensor"),
    (DrawsForAll, "leaves_the_process_alone", "transforming changed numpy's random state"),
]


@pytest.mark.parametrize(("component", "check", "teaches"), BROKEN, ids=lambda each: getattr(each, "__name__", None))
def test_fails_only_its_check(component: type, check: str, teaches: str) -> None:
    assert_fails_only(component, check, teaches)


def test_every_check_has_a_component_that_fails_it() -> None:
    assert {check for _, check, _ in BROKEN} == {check.name for check in transforms.CHECKS}


@pytest.mark.parametrize("component", [Doubles, ShrinksSteps])
def test_a_good_one_passes(component: type) -> None:
    assert failures(component) == {}
