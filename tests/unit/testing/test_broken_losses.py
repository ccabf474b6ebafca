"""Losses with one fault each: every one fails its own check and no other."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from grpo_lightning.functional.groups import Groups
from grpo_lightning.losses.base import LossInputs, LossTerms, PolicyLoss, bounded_exp
from grpo_lightning.steps import UpdateSteps
from helpers.checked import expect_one_failure, failures_of, own_checks


def ratio(inputs: LossInputs) -> Tensor:
    return bounded_exp(inputs.log_probs_S - inputs.old_log_probs_S)


class Plain(PolicyLoss):
    """``-rho A`` a step: a sound one."""

    name = "plain"

    def __call__(self, inputs: LossInputs) -> LossTerms:
        return LossTerms(-inputs.advantages_S * ratio(inputs))


class ByGroup(PolicyLoss):
    """A term a group that mixes its rows: a sound one."""

    name = "by_group"
    scope = "group"

    def __call__(self, inputs: LossInputs) -> LossTerms:
        mean_R = inputs.mean_rows(inputs.log_probs_S - inputs.old_log_probs_S)
        groups = Groups.of(inputs.group_R)
        return LossTerms(groups.sum(-inputs.row_advantages() * mean_R) / groups.sizes_G)


class Planned(Plain):
    """The steps furthest from the policy that sampled are left out: a sound one."""

    name = "planned"
    scope = "update"

    def plan(self, update: UpdateSteps) -> Tensor:
        gap_S = (update.log_probs_S - update.behaviour_log_probs_S).abs()
        return (gap_S <= gap_S.median()).double()

    def __call__(self, inputs: LossInputs) -> LossTerms:
        assert inputs.plan_S is not None
        return LossTerms(super().__call__(inputs).terms * inputs.plan_S.to(inputs.log_probs_S.dtype))


class Misspelt(Plain):
    """Names an aggregation that does not exist."""

    name = "misspelt"
    aggregations = frozenset({"tokenmean"})


class Column(Plain):
    """Returns a column of terms."""

    name = "column"

    def __call__(self, inputs: LossInputs) -> LossTerms:
        return LossTerms(super().__call__(inputs).terms[:, None])


class Widens(Plain):
    """Returns float64 whatever it gets."""

    name = "widens"

    def __call__(self, inputs: LossInputs) -> LossTerms:
        return LossTerms(super().__call__(inputs).terms.double())


class Overflows(Plain):
    """Takes a plain exponential."""

    name = "overflows"

    def __call__(self, inputs: LossInputs) -> LossTerms:
        return LossTerms(-inputs.advantages_S * (inputs.log_probs_S - inputs.old_log_probs_S).exp())


class Restless(Plain):
    """Has a penalty at every step, and does not say so."""

    name = "restless"

    def __call__(self, inputs: LossInputs) -> LossTerms:
        penalty_S = 0.01 * (inputs.log_probs_S - inputs.old_log_probs_S) ** 2
        return LossTerms(super().__call__(inputs).terms + penalty_S)


class Detached(Plain):
    """Loses the gradient."""

    name = "detached"

    def __call__(self, inputs: LossInputs) -> LossTerms:
        return LossTerms(super().__call__(inputs).terms.detach())


class Upside(Plain):
    """Is meant to be maximised."""

    name = "upside"

    def __call__(self, inputs: LossInputs) -> LossTerms:
        return LossTerms(inputs.advantages_S * ratio(inputs))


class Rescaled(Plain):
    """Has values relative to the largest of the micro-batch, with the right gradient."""

    name = "rescaled"

    def __call__(self, inputs: LossInputs) -> LossTerms:
        terms_S = super().__call__(inputs).terms
        fixed_S = terms_S.detach()
        return LossTerms(fixed_S / fixed_S.abs().amax().clamp(min=1e-30) + (terms_S - fixed_S))


class SelfNormalised(Plain):
    """Weighs by ratios over their mean in the micro-batch, in a surrogate of value 0."""

    name = "self_normalised"

    def __call__(self, inputs: LossInputs) -> LossTerms:
        weight_S = ratio(inputs).detach()
        weight_S = weight_S / weight_S.mean()
        score_S = inputs.log_probs_S - inputs.log_probs_S.detach()
        return LossTerms(-inputs.advantages_S * weight_S * score_S)


class Undeclared(Plain):
    """Reads the entropy and does not declare it."""

    name = "undeclared"

    def __call__(self, inputs: LossInputs) -> LossTerms:
        bonus_S = 1 + 0.1 * inputs.functionals["entropy"].detach()
        return LossTerms(-inputs.advantages_S * bonus_S * ratio(inputs))


class LiveMetric(Plain):
    """Logs a metric that holds on to the graph."""

    name = "live_metric"

    def __call__(self, inputs: LossInputs) -> LossTerms:
        return LossTerms(super().__call__(inputs).terms, {"ratio": ratio(inputs)})


class DrawsItsPlan(Planned):
    """Plans by a generator of its own."""

    name = "draws_its_plan"

    def __init__(self) -> None:
        self.generator = torch.Generator().manual_seed(0)

    def plan(self, update: UpdateSteps) -> Tensor:
        return (torch.rand(update.log_probs_S.shape, generator=self.generator) < 0.8).double()


class Remembers(Plain):
    """Grows with every call."""

    name = "remembers"

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, inputs: LossInputs) -> LossTerms:
        self.calls += 1
        return LossTerms(self.calls * super().__call__(inputs).terms)


class InPlace(Plain):
    """Clips the advantages where they lie."""

    name = "in_place"

    def __call__(self, inputs: LossInputs) -> LossTerms:
        inputs.advantages_S.clamp_(-1.0, 1.0)
        return super().__call__(inputs)


class Seeds(Plain):
    """Seeds the generator of all."""

    name = "seeds"

    def __call__(self, inputs: LossInputs) -> LossTerms:
        torch.manual_seed(1234)
        return super().__call__(inputs)


BROKEN: list[Any] = [
    (Misspelt, "declares_what_exists", "tokenmean is registered nowhere"),
    (Column, "terms_have_the_shape_of_the_scope", "one term a step for scopes step and update"),
    (Widens, "keeps_dtype", "end with .to(inputs.log_probs_S.dtype)"),
    (Overflows, "finite_at_extremes", "bounded_exp, which is held below overflow"),
    (Restless, "zero_advantage_is_silent", "or declare runs_silent = True"),
    (Detached, "has_a_gradient", "keep inputs.log_probs_S in the graph"),
    (Upside, "follows_the_advantage", "such as ratio * A, is returned as -ratio * A"),
    (Rescaled, "terms_stand_alone", "take no mean, sum or maximum over all steps"),
    (SelfNormalised, "any_micro_batches", "the aggregation holds the whole update's normaliser"),
    (Undeclared, "only_declared_functionals", "set functionals = frozenset({'entropy'})"),
    (LiveMetric, "step_metrics_are_plain_numbers", "add .detach()"),
    (DrawsItsPlan, "plan_is_a_function_of_the_update", "draw from update.uniform_S"),
    (Remembers, "repeats_itself", "keep nothing between calls"),
    (InPlace, "leaves_inputs_alone", "it changed advantages_S"),
    (Seeds, "leaves_the_process_alone", "changed torch's random state"),
]


def test_the_size_of_a_micro_batch_is_named() -> None:
    found = failures_of(MicroBatchMean)
    assert set(found) == {"terms_stand_alone", "any_micro_batches"}
    assert "the terms are divided by the size of their micro-batch" in found["any_micro_batches"]


class MicroBatchMean(ByGroup):
    """Divides by the number of groups in the micro-batch."""

    name = "micro_batch_mean"

    def __call__(self, inputs: LossInputs) -> LossTerms:
        terms_G = super().__call__(inputs).terms
        return LossTerms(terms_G / terms_G.shape[0])


@pytest.mark.parametrize(("component", "check", "teaches"), BROKEN, ids=lambda each: getattr(each, "__name__", None))
def test_fails_only_its_check(component: type, check: str, teaches: str) -> None:
    expect_one_failure(component, check, teaches)


def test_every_check_has_a_component_that_fails_it() -> None:
    assert {check for _, check, _ in BROKEN} == {check.name for check in own_checks("loss")}


@pytest.mark.parametrize("component", [Plain, ByGroup, Planned])
def test_a_good_one_passes(component: type) -> None:
    assert failures_of(component) == {}
