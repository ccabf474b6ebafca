from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from grpo_lightning.errors import ConfigError
from grpo_lightning.losses.kl_cov import KLCovLoss
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

MODES: list[dict[str, Any]] = [{}, {"fraction": 0.3, "beta": 0.1}, {"fraction": 1.0}]


def exact_covariances(rows: list[Row]) -> list[Fraction]:
    """Deviation times deviation, in exact arithmetic."""
    steps = floats(rows)
    mean = sum((Fraction(step["A"]) for step in steps), Fraction(0)) / len(steps)
    middle = sum((Fraction(step["lp"]) for step in steps), Fraction(0)) / len(steps)
    return [(Fraction(step["A"]) - mean) * (Fraction(step["lp"]) - middle) for step in steps]


def chosen(rows: list[Row], loss: KLCovLoss) -> list[bool]:
    parts = exact_covariances(rows)
    left = list(range(len(parts)))
    taken: list[int] = []
    for _ in range(max(1, math.floor(Fraction(str(loss.fraction)) * len(parts)))):
        largest = left[0]
        for index in left:
            if parts[index] > parts[largest]:
                largest = index
        left.remove(largest)
        taken.append(largest)
    return [index in taken for index in range(len(parts))]


def terms(rows: list[Row], penalised: list[bool], loss: KLCovLoss) -> list[Any]:
    result: list[Any] = []
    for row in rows:
        for t in range(row.length):
            log_ratio = row.lp[t] - row.old[t]
            term = -row.advantage[t] * log_ratio.exp()
            result.append(term + loss.beta * log_ratio.abs() if penalised[len(result)] else term)
    return result


def decided(rows: list[Row], ties: bool) -> bool:
    """Covariances differ by more than their rounding; or, with ``ties``, are those of steps that are alike."""
    steps, parts = floats(rows), exact_covariances(rows)
    size = 1e-12 * max(abs(step["A"]) for step in steps) * max(abs(step["lp"]) for step in steps)
    for i in range(len(parts)):
        for j in range(i):
            alike = (steps[i]["A"], steps[i]["lp"]) == (steps[j]["A"], steps[j]["lp"])
            still = parts[i] == parts[j] == 0 and len({step["A"] for step in steps}) == 1
            if abs(parts[i] - parts[j]) <= size and not (ties and (alike or still)):
                return False
    return True


@pytest.mark.parametrize("options", MODES)
@formula_cases
@given(case=planned_cases(per_step=True))
def test_equals_its_formula(options: dict[str, Any], case: Planned) -> None:
    rows, uniforms = case
    loss = KLCovLoss(**options)
    assume(decided(rows, ties=True))
    penalised = chosen(rows, loss)
    plan = loss.plan(update_of(rows, uniforms))
    assert plan.tolist() == [float(each) for each in penalised]
    expect_formula(loss, rows, lambda seen: terms(seen, penalised, loss), plan_S=plan)


@pytest.mark.parametrize("options", MODES)
@formula_cases
@given(case=planned_cases(per_step=True), seed=st.randoms(use_true_random=False))
def test_cuts_change_nothing(options: dict[str, Any], case: Planned, seed: Any) -> None:
    expect_any_cut(KLCovLoss(**options), *case)


@pytest.mark.parametrize("options", MODES)
@formula_cases
@given(case=planned_cases(per_step=True), seed=st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing_without_ties(options: dict[str, Any], case: Planned, seed: Any) -> None:
    rows, uniforms = case
    assume(decided(rows, ties=False))
    order = list(range(len(rows)))
    seed.shuffle(order)
    expect_same_plan_for_permuted_rows(KLCovLoss(**options), rows, uniforms, order)


def four_steps() -> list[Row]:
    """Two rows; means of A and of log pi are 0 and -4: covariances 3, 1, 1, 3 from A = 1, 1, -1, -1."""
    first, second = [-1.0, -3.0], [-5.0, -7.0]
    return [Row(0, first, first, first, [1.0, 1.0]), Row(0, second, second, second, [-1.0, -1.0])]


def test_chooses_the_largest_and_of_equal_ones_the_first_by_hand() -> None:
    update = update_of(four_steps())
    assert KLCovLoss().plan(update).tolist() == [1, 0, 0, 0]
    assert KLCovLoss(fraction=0.5).plan(update).tolist() == [1, 0, 0, 1]
    assert KLCovLoss(fraction=0.75).plan(update).tolist() == [1, 1, 0, 1]
    assert KLCovLoss(fraction=1.0).plan(update).tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("advantage", [0.0, 0.1, -1e6])
def test_equal_advantages_choose_the_first_steps(advantage: float) -> None:
    rows = [Row(0, [-5.0, -1.0, -9.0], [-5.0] * 3, [-5.0] * 3, [advantage] * 3)]
    assert KLCovLoss(fraction=0.7).plan(update_of(rows)).tolist() == [1, 1, 0]
    assert KLCovLoss().plan(update_of([Row(0, [-1.0], [-1.0], [-1.0], [advantage])])).tolist() == [1]


def test_terms_by_hand() -> None:
    # ratio 2, 1/2 with A = 1, 0; both penalised with beta 3: -2 + 3 log 2 and 3 log 2.
    rows = [Row(0, [-1.0, -3.0], [-1.0 - math.log(2), -3.0 + math.log(2)], [-1.0, -3.0], [1.0, 0.0])]
    loss, plan = KLCovLoss(beta=3.0), torch.ones(2)
    total, gradient = sum_and_gradient(loss, rows, plan, [])
    torch.testing.assert_close(total, torch.tensor(-2 + 6 * math.log(2), dtype=torch.float64))
    torch.testing.assert_close(gradient, torch.tensor([-2.0 + 3.0, -3.0], dtype=torch.float64))
    assert loss.runs_silent, "a chosen step of advantage 0 has a gradient"
    metrics = loss(replace(inputs_of(rows), plan_S=torch.tensor([0.0, 1.0]))).step_metrics
    assert metrics["penalised_fraction"].tolist() == [0, 1]
    torch.testing.assert_close(metrics["ratio"], torch.tensor([2.0, 0.5], dtype=torch.float64))
    assert not any(metric.requires_grad for metric in metrics.values())


def test_the_old_policy_has_no_penalty_and_the_plain_policy_gradient() -> None:
    loss = KLCovLoss(fraction=1.0)
    rows = four_steps()
    total, gradient = sum_and_gradient(loss, rows, loss.plan(update_of(rows)), [])
    assert total.item() == 0.0
    assert gradient.tolist() == [-1.0, -1.0, 1.0, 1.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("log_ratio", [-500.0, -40.0, 40.0, 500.0])
def test_extreme_ratios_are_finite(log_ratio: float, dtype: torch.dtype) -> None:
    rows = [Row(0, [-1.0] * 3, [-1.0 - log_ratio] * 3, [-1.0] * 3, [0.0, 1e6, -1e6])]
    inputs = inputs_of(rows, dtype=dtype)
    found = KLCovLoss()(replace(inputs, plan_S=torch.ones(3))).terms
    gradient = torch.autograd.grad(found.sum(), inputs.log_probs_S)[0]
    assert found.dtype == dtype
    assert found.isfinite().all()
    assert gradient.isfinite().all()
    assert found[0].item() == abs(log_ratio)


def test_formula_holds_its_numbers() -> None:
    formula = KLCovLoss(fraction=2e-3, beta=0.5).formula()
    assert formula.text.startswith("l_it = ")
    assert "0.5 |log rho_it|" in formula.text
    assert "0.5" in formula.latex
    assert "0.002" in formula.symbols["D"]


@pytest.mark.parametrize(
    ("setting", "value"), [("fraction", 0.0), ("fraction", 1.1), ("beta", -1.0), ("beta", math.inf)]
)
def test_wrong_values_are_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        KLCovLoss(**{setting: value})
    assert error.value.setting == setting
