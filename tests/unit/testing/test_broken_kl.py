"""KL estimators with one fault each: every one fails its own check and no other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from torch import Tensor

from grpo_lightning.kl.base import KLEstimator, KLInputs
from helpers.checked import expect_one_failure, failures_of, own_checks


class Half(KLEstimator):
    """Half the squared log-ratio: a sound one."""

    name = "half"

    def __call__(self, inputs: KLInputs) -> Tensor:
        return 0.5 * (inputs.log_probs_S - inputs.reference_log_probs_S) ** 2


class Exact(KLEstimator):
    """The exact divergence, declared: a sound one."""

    name = "exactly"
    functionals = frozenset({"exact_kl"})

    def __call__(self, inputs: KLInputs) -> Tensor:
        assert inputs.exact_kl_S is not None
        return inputs.exact_kl_S


class Column(Half):
    """Returns a column."""

    name = "column"

    def __call__(self, inputs: KLInputs) -> Tensor:
        return super().__call__(inputs)[:, None]


class Widens(Half):
    """Returns float64 whatever it gets."""

    name = "widens"

    def __call__(self, inputs: KLInputs) -> Tensor:
        return super().__call__(inputs).double()


class Floored(Half):
    """Adds a little, to be safe."""

    name = "floored"

    def __call__(self, inputs: KLInputs) -> Tensor:
        return super().__call__(inputs) + 1e-6


class Overflows(Half):
    """Takes a plain exponential."""

    name = "overflows"

    def __call__(self, inputs: KLInputs) -> Tensor:
        d_S = inputs.log_probs_S - inputs.reference_log_probs_S
        return (-d_S).exp() - 1 + d_S


class Detached(Half):
    """Loses the gradient."""

    name = "detached"

    def __call__(self, inputs: KLInputs) -> Tensor:
        return super().__call__(inputs).detach()


class Centred(Half):
    """Subtracts the mean of the micro-batch."""

    name = "centred"

    def __call__(self, inputs: KLInputs) -> Tensor:
        values_S = super().__call__(inputs)
        return values_S - values_S.mean().detach()


class Undeclared(Half):
    """Takes the exact divergence and does not declare it."""

    name = "undeclared"

    def __call__(self, inputs: KLInputs) -> Tensor:
        assert inputs.exact_kl_S is not None, "there is no exact divergence"
        return inputs.exact_kl_S


class Grows(Half):
    """Grows with every call."""

    name = "grows"

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, inputs: KLInputs) -> Tensor:
        self.calls += 1
        return self.calls * super().__call__(inputs)


class InPlace(Half):
    """Holds the reference from below where it lies."""

    name = "in_place"

    def __call__(self, inputs: KLInputs) -> Tensor:
        inputs.reference_log_probs_S.clamp_(min=-2.0)
        same_S = inputs.log_probs_S.clamp(min=-2.0)
        return 0.5 * (same_S - inputs.reference_log_probs_S) ** 2


class Draws(Half):
    """Draws a number that nobody uses."""

    name = "draws"

    def __call__(self, inputs: KLInputs) -> Tensor:
        np.random.rand()
        return super().__call__(inputs)


BROKEN: list[Any] = [
    (Column, "gives_one_value_a_step", "neither add nor average"),
    (Widens, "keeps_dtype", "end with .to(inputs.log_probs_S.dtype)"),
    (Floored, "zero_where_policies_agree", "add no constant"),
    (Overflows, "finite_far_from_the_reference", "clamp it before the exponential"),
    (Detached, "has_a_gradient", "detach nothing but weights"),
    (Centred, "goes_step_by_step", "take no mean, sum or maximum over steps"),
    (Undeclared, "only_declared_functionals", "set functionals = frozenset({'exact_kl'})"),
    (Grows, "repeats_itself", "keep nothing between calls"),
    (InPlace, "leaves_inputs_alone", "it changed reference_log_probs_S"),
    (Draws, "leaves_the_process_alone", "changed numpy's random state"),
]


@pytest.mark.parametrize(("component", "check", "teaches"), BROKEN, ids=lambda each: getattr(each, "__name__", None))
def test_fails_only_its_check(component: type, check: str, teaches: str) -> None:
    expect_one_failure(component, check, teaches)


def test_every_check_has_a_component_that_fails_it() -> None:
    assert {check for _, check, _ in BROKEN} == {check.name for check in own_checks("kl")}


@pytest.mark.parametrize("component", [Half, Exact])
def test_a_good_one_passes(component: type) -> None:
    assert failures_of(component) == {}
