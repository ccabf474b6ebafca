"""Aggregations with one fault each: every one fails its own check and no other."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from grpo_lightning.aggregations.base import Aggregation, UpdateRows
from helpers.checked import expect_one_failure, failures_of, own_checks


class RowMean(Aggregation):
    """Mean over rows of the mean over steps: a sound one."""

    name = "row_mean"

    def step_weights(self, rows: UpdateRows) -> Tensor:
        return 1.0 / (rows.lengths_R.double() * rows.lengths_R.shape[0])


class Single(RowMean):
    """Returns float32."""

    name = "single"

    def step_weights(self, rows: UpdateRows) -> Tensor:
        return super().step_weights(rows).float()


class Unbiased(RowMean):
    """Divides by one step fewer than there are."""

    name = "unbiased"

    def step_weights(self, rows: UpdateRows) -> Tensor:
        return 1.0 / (rows.lengths_R.double() - 1)


class Early(RowMean):
    """Weighs the first rows most."""

    name = "early"

    def step_weights(self, rows: UpdateRows) -> Tensor:
        return super().step_weights(rows) / torch.arange(1, rows.lengths_R.shape[0] + 1)


class CountsOrdinals(RowMean):
    """Takes the largest ordinal for the number of groups."""

    name = "counts_ordinals"

    def step_weights(self, rows: UpdateRows) -> Tensor:
        return super().step_weights(rows) / (rows.group_R.max() + 1)


class Anneals(RowMean):
    """Shrinks with every call."""

    name = "anneals"

    def __init__(self) -> None:
        self.calls = 0

    def step_weights(self, rows: UpdateRows) -> Tensor:
        self.calls += 1
        return super().step_weights(rows) / self.calls


class Caps(RowMean):
    """Caps the lengths where they lie."""

    name = "caps"

    def step_weights(self, rows: UpdateRows) -> Tensor:
        rows.lengths_R.clamp_(max=4)
        return super().step_weights(rows)


class Draws(RowMean):
    """Draws a number that nobody uses."""

    name = "draws"

    def step_weights(self, rows: UpdateRows) -> Tensor:
        torch.rand(1)
        return super().step_weights(rows)


BROKEN: list[Any] = [
    (Single, "gives_one_weight_a_row", "float32. To mend it: compute from rows.lengths_R.to(torch.float64)"),
    (Unbiased, "weights_are_positive_and_finite", "divide only by counts that are never 0"),
    (Early, "order_of_rows_does_not_matter", "never a row's index"),
    (CountsOrdinals, "groups_are_only_names", "not by their largest ordinal"),
    (Anneals, "repeats_itself", "keep nothing between calls"),
    (Caps, "leaves_inputs_alone", "it changed lengths_R"),
    (Draws, "leaves_the_process_alone", "changed torch's random state"),
]


@pytest.mark.parametrize(("component", "check", "teaches"), BROKEN, ids=lambda each: getattr(each, "__name__", None))
def test_fails_only_its_check(component: type, check: str, teaches: str) -> None:
    expect_one_failure(component, check, teaches)


def test_every_check_has_a_component_that_fails_it() -> None:
    assert {check for _, check, _ in BROKEN} == {check.name for check in own_checks("aggregation")}


@pytest.mark.parametrize("component", [RowMean])
def test_a_good_one_passes(component: type) -> None:
    assert failures_of(component) == {}
