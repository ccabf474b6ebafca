from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from grpo_lightning.errors import ConfigError
from grpo_lightning.losses.m2po import M2POLoss
from helpers.adversarial import Row, expect_formula, formula_cases, inputs_of
from helpers.planned_updates import (
    Planned,
    expect_any_cut,
    expect_same_plan_for_permuted_rows,
    floats,
    planned_cases,
    sum_and_gradient,
    update_of,
)

MODES: list[dict[str, Any]] = [
    {},
    {"candidates": "gain"},
    {"threshold": 30.0},
    {"threshold": 5.0, "candidates": "gain"},
]


def counted(step: dict[str, float], loss: M2POLoss) -> bool:
    if loss.candidates == "all":
        return True
    return (step["A"] > 0 and step["lp"] > step["mu"]) or (step["A"] < 0 and step["lp"] < step["mu"])


def masked(rows: list[Row], loss: M2POLoss) -> list[bool]:
    """Take the largest out, one by one, until the mean of the rest is below the threshold."""
    steps = floats(rows)
    left = {i: Fraction(step["lp"] - step["mu"]) ** 2 for i, step in enumerate(steps) if counted(step, loss)}
    out = []
    while left and sum(left.values(), Fraction(0)) / len(left) >= Fraction(loss.threshold):
        largest = max(left.values())
        out.append(min(index for index, square in left.items() if square == largest))
        del left[out[-1]]
    return [index in out for index in range(len(steps))]


def terms(rows: list[Row], out: list[bool]) -> list[Any]:
    result: list[Any] = []
    for row in rows:
        for t in range(row.length):
            ratio = (row.lp[t] - row.mu[t]).exp()
            result.append(0.0 if out[len(result)] else -row.advantage[t] * ratio)
    return result


def decided(rows: list[Row], loss: M2POLoss, ties: bool) -> bool:
    """No mean lies so near the threshold that rounding decides; squares are equal only if the ratios are, or never."""
    ratios = [step["lp"] - step["mu"] for step in floats(rows) if counted(step, loss)]
    squares = sorted(Fraction(ratio) ** 2 for ratio in ratios)
    for count in range(1, len(squares) + 1):
        mean = sum(squares[:count], Fraction(0)) / count
        if abs(mean - Fraction(loss.threshold)) < 1e-9:
            return False
    close = [b - a < 1e-12 * (1 + b) for a, b in pairwise(squares)]
    equal = [a == b for a, b in pairwise(squares)]
    return close == equal if ties else not any(close)


@pytest.mark.parametrize("options", MODES)
@formula_cases
@given(case=planned_cases(per_step=True))
def test_equals_its_formula(options: dict[str, Any], case: Planned) -> None:
    rows, uniforms = case
    loss = M2POLoss(**options)
    assume(decided(rows, loss, ties=True))
    out = masked(rows, loss)
    plan = loss.plan(update_of(rows, uniforms))
    assert plan.tolist() == [float(each) for each in out]
    expect_formula(loss, rows, lambda seen: terms(seen, out), plan_S=plan)


@pytest.mark.parametrize("options", MODES)
@formula_cases
@given(case=planned_cases(per_step=True))
def test_cuts_change_nothing(options: dict[str, Any], case: Planned) -> None:
    expect_any_cut(M2POLoss(**options), *case)


@pytest.mark.parametrize("options", MODES)
@formula_cases
@given(case=planned_cases(per_step=True), seed=st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing_without_ties(options: dict[str, Any], case: Planned, seed: Any) -> None:
    rows, uniforms = case
    loss = M2POLoss(**options)
    assume(decided(rows, loss, ties=False))
    order = list(range(len(rows)))
    seed.shuffle(order)
    expect_same_plan_for_permuted_rows(loss, rows, uniforms, order)


def moved(log_ratios: list[float], advantages: list[float]) -> list[Row]:
    """A row a step, whose policy has moved by ``log_ratios`` from the one that sampled."""
    return [Row(0, [-1.0], [-1.0], [-1.0 - x], [a]) for x, a in zip(log_ratios, advantages, strict=True)]


def test_masks_by_hand() -> None:
    # Squares 1/4, 1/4, 1, 4: means of the smallest one to four are 1/4, 1/4, 1/2, 11/8.
    update = update_of(moved([0.5, -2.0, 1.0, -0.5], [1.0, 1.0, -1.0, -1.0]))
    assert M2POLoss(threshold=1.5).plan(update).tolist() == [0, 0, 0, 0]
    assert M2POLoss(threshold=1.375).plan(update).tolist() == [0, 1, 0, 0], "the mean must be below"
    assert M2POLoss(threshold=0.4).plan(update).tolist() == [0, 1, 1, 0]
    assert M2POLoss(threshold=0.25).plan(update).tolist() == [1, 1, 1, 1], "nothing is close enough"
    assert M2POLoss(threshold=1e9).plan(update).tolist() == [0, 0, 0, 0]


def test_gain_masks_only_steps_that_moved_with_their_advantage_by_hand() -> None:
    # With the gain: 0.5 (A = 1), -3 (A = -1) and 1 (A = 1); squares 1/4, 9, 1.
    update = update_of(moved([0.5, -9.0, -3.0, 9.0, 1.0, 9.0], [1.0, 1.0, -1.0, -1.0, 1.0, 0.0]))
    assert M2POLoss(threshold=4.0, candidates="gain").plan(update).tolist() == [0, 0, 0, 0, 0, 0]
    assert M2POLoss(threshold=1.0, candidates="gain").plan(update).tolist() == [0, 0, 1, 0, 0, 0]
    assert M2POLoss(threshold=0.01, candidates="gain").plan(update).tolist() == [1, 0, 1, 0, 1, 0]


def test_of_equal_squares_the_first_are_masked() -> None:
    # Means of one to four: 0, 1/3 of 0 + 1 = 1/2, 2/3, 3/4.
    update = update_of(moved([1.0, -1.0, 0.0, 1.0], [1.0] * 4))
    assert M2POLoss(threshold=0.7).plan(update).tolist() == [1, 0, 0, 0]
    assert M2POLoss(threshold=0.6).plan(update).tolist() == [1, 1, 0, 0]


def test_terms_and_metrics_by_hand() -> None:
    rows = moved([math.log(2), math.log(0.25), 0.0], [1.0, -3.0, 2.0])
    loss, plan = M2POLoss(), torch.tensor([0.0, 0.0, 1.0])
    total, gradient = sum_and_gradient(loss, rows, plan, [])
    torch.testing.assert_close(total, torch.tensor(-2 + 0.75, dtype=torch.float64))
    torch.testing.assert_close(gradient, torch.tensor([-2.0, 0.75, 0.0], dtype=torch.float64))
    metrics = loss(replace(inputs_of(rows), plan_S=plan)).step_metrics
    assert metrics["masked_fraction"].tolist() == [0, 0, 1]
    torch.testing.assert_close(metrics["behaviour_ratio"], torch.tensor([2.0, 0.25, 1.0], dtype=torch.float64))
    assert not any(metric.requires_grad for metric in metrics.values())
    assert loss.weighs_sampler


@pytest.mark.parametrize("candidates", ["all", "gain"])
def test_one_step_and_no_advantages(candidates: Any) -> None:
    loss = M2POLoss(candidates=candidates)
    assert loss.plan(update_of(moved([0.0], [1.0]))).tolist() == [0]
    assert loss.plan(update_of(moved([20.0], [1.0]))).tolist() == [1]
    still = update_of(moved([0.1, -20.0, 0.1], [0.0] * 3))
    assert loss.plan(still).tolist() == ([0, 1, 0] if candidates == "all" else [0, 0, 0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("log_ratio", [-500.0, -40.0, 40.0, 500.0])
def test_extreme_ratios_are_finite(log_ratio: float, dtype: torch.dtype) -> None:
    rows = moved([log_ratio] * 4, [0.0, 1e6, -1e6, 1.0])
    inputs = inputs_of(rows, dtype=dtype)
    found = M2POLoss()(replace(inputs, plan_S=torch.tensor([0.0, 0.0, 0.0, 1.0]))).terms
    gradient = torch.autograd.grad(found.sum(), inputs.log_probs_S)[0]
    assert found.dtype == dtype
    assert found.isfinite().all()
    assert gradient.isfinite().all()
    assert found[0].item() == gradient[0].item() == found[3].item() == gradient[3].item() == 0.0
    assert M2POLoss().plan(update_of(rows)).tolist() == [1] * 4


def test_formula_holds_its_numbers() -> None:
    formula = M2POLoss(threshold=0.05, candidates="gain").formula()
    assert formula.text.startswith("l_it = ")
    assert "0.05" in formula.symbols["M_it"]
    assert "A_it log rho_mu_it > 0" in formula.symbols["M_it"]


@pytest.mark.parametrize(("setting", "value"), [("threshold", 0.0), ("threshold", math.inf), ("candidates", "loss")])
def test_wrong_values_are_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        M2POLoss(**{setting: value})
    assert error.value.setting == setting
