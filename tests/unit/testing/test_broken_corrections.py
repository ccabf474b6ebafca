"""Corrections with one fault each: every one fails its own check and no other."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from grpo_lightning.corrections.base import Correction, CorrectionInputs
from helpers.checked import expect_one_failure, failures_of, own_checks


class Capped(Correction):
    """``min(kappa, 2)`` a step: a sound one."""

    name = "capped"

    def __call__(self, inputs: CorrectionInputs) -> Tensor:
        return (inputs.old_log_probs_S - inputs.behaviour_log_probs_S).clamp(max=0.7).exp()


class CappedRows(Correction):
    """The capped geometric mean of a row: a sound one."""

    name = "capped_rows"
    level = "sequence"

    def __call__(self, inputs: CorrectionInputs) -> Tensor:
        mean_R = inputs.mean_rows(inputs.old_log_probs_S - inputs.behaviour_log_probs_S)
        return mean_R.clamp(max=0.7).exp()[inputs.row_S]


class CountsBlindly(Capped):
    """Counts the remaining steps of a micro-batch."""

    name = "counts_blindly"
    denominator = "remaining"


class ByRow(CappedRows):
    """Returns a column."""

    name = "by_row"

    def __call__(self, inputs: CorrectionInputs) -> Tensor:
        return super().__call__(inputs)[:, None]


class Widens(Capped):
    """Returns float64 whatever it gets."""

    name = "widens"

    def __call__(self, inputs: CorrectionInputs) -> Tensor:
        return super().__call__(inputs).double()


class Linear(Capped):
    """``1 + log kappa``, which falls below 0."""

    name = "linear"

    def __call__(self, inputs: CorrectionInputs) -> Tensor:
        return 1 + (inputs.old_log_probs_S - inputs.behaviour_log_probs_S).clamp(max=1.0)


class Shrinks(Capped):
    """Weighs less even where the policies agree."""

    name = "shrinks"

    def __call__(self, inputs: CorrectionInputs) -> Tensor:
        return 0.9 * super().__call__(inputs)


class SaysRows(Capped):
    """Says that it weighs rows and weighs steps."""

    name = "says_rows"
    level = "sequence"


class FirstComeFirst(Capped):
    """Trusts the first steps of the update most."""

    name = "first_come_first"
    whole_update = True

    def __call__(self, inputs: CorrectionInputs) -> Tensor:
        weights_S = super().__call__(inputs)
        return 1 + (weights_S - 1) / torch.arange(1, weights_S.shape[0] + 1, dtype=weights_S.dtype)


class MicroBatchMean(Capped):
    """Divides by the mean of the micro-batch."""

    name = "micro_batch_mean"

    def __call__(self, inputs: CorrectionInputs) -> Tensor:
        weights_S = super().__call__(inputs)
        return weights_S / weights_S.mean()


class Undeclared(Capped):
    """Reads the entropy and does not declare it."""

    name = "undeclared"

    def __call__(self, inputs: CorrectionInputs) -> Tensor:
        sure_S = inputs.functionals["entropy"] < 1e-3
        return super().__call__(inputs).masked_fill(sure_S, 0.0)


class Anneals(Capped):
    """Shrinks with every call."""

    name = "anneals"

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, inputs: CorrectionInputs) -> Tensor:
        self.calls += 1
        return super().__call__(inputs) ** self.calls


class InPlace(Capped):
    """Takes the difference where the old log-probabilities lie."""

    name = "in_place"

    def __call__(self, inputs: CorrectionInputs) -> Tensor:
        return inputs.old_log_probs_S.sub_(inputs.behaviour_log_probs_S).clamp(max=0.7).exp()


class Draws(Capped):
    """Draws a number that nobody uses."""

    name = "draws"

    def __call__(self, inputs: CorrectionInputs) -> Tensor:
        torch.rand(1)
        return super().__call__(inputs)


BROKEN: list[Any] = [
    (CountsBlindly, "declares_what_fits_together", "set whole_update = True where denominator is 'remaining'"),
    (ByRow, "gives_one_weight_a_step", "weights_R[inputs.row_S]"),
    (Widens, "keeps_dtype", "end with .to(inputs.old_log_probs_S.dtype)"),
    (Linear, "weights_are_finite_and_not_negative", "finite and not negative"),
    (Shrinks, "agreeing_policies_weigh_one", "scale so that a ratio of 1 gives 1"),
    (SaysRows, "level_sequence_weighs_rows", "or set level = 'step'"),
    (FirstComeFirst, "order_of_rows_does_not_matter", "use no index of rows or steps"),
    (MicroBatchMean, "rows_do_not_mix", "or set whole_update = True"),
    (Undeclared, "only_declared_functionals", "set functionals = frozenset({'entropy'})"),
    (Anneals, "repeats_itself", "keep nothing between calls"),
    (InPlace, "leaves_inputs_alone", "it changed old_log_probs_S"),
    (Draws, "leaves_the_process_alone", "changed torch's random state"),
]


@pytest.mark.parametrize(("component", "check", "teaches"), BROKEN, ids=lambda each: getattr(each, "__name__", None))
def test_fails_only_its_check(component: type, check: str, teaches: str) -> None:
    expect_one_failure(component, check, teaches)


def test_every_check_has_a_component_that_fails_it() -> None:
    assert {check for _, check, _ in BROKEN} == {check.name for check in own_checks("correction")}


@pytest.mark.parametrize("component", [Capped, CappedRows])
def test_a_good_one_passes(component: type) -> None:
    assert failures_of(component) == {}
