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
from grpo_lightning.losses.clip_cov import ClipCovLoss
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
    {"fraction": 0.2, "cov_low": 0.1},
    {"fraction": 1.0, "cov_low": -1.0, "cov_high": 1e9, "epsilon_low": 1.0, "epsilon_high": 0.28},
]


def exact_covariances(rows: list[Row]) -> list[Fraction]:
    """Deviation times deviation, in exact arithmetic."""
    steps = floats(rows)
    mean = sum((Fraction(step["A"]) for step in steps), Fraction(0)) / len(steps)
    middle = sum((Fraction(step["lp"]) for step in steps), Fraction(0)) / len(steps)
    return [(Fraction(step["A"]) - mean) * (Fraction(step["lp"]) - middle) for step in steps]


def clipped(step: dict[str, float], loss: ClipCovLoss) -> bool:
    ratio = math.exp(step["lp"] - step["old"])
    return (step["A"] > 0 and ratio > 1 + loss.epsilon_high) or (step["A"] < 0 and ratio < 1 - loss.epsilon_low)


def chosen(rows: list[Row], uniforms: list[float], loss: ClipCovLoss) -> list[bool]:
    steps, parts = floats(rows), exact_covariances(rows)
    candidates = []
    for index, step in enumerate(steps):
        if loss.cov_low < parts[index] < loss.cov_high and not clipped(step, loss):
            candidates.append(index)
    count = max(1, math.floor(Fraction(str(loss.fraction)) * len(steps)))
    taken: list[int] = []
    while candidates and len(taken) < count:
        smallest = min(candidates, key=lambda index: uniforms[index])
        candidates.remove(smallest)
        taken.append(smallest)
    return [index in taken for index in range(len(steps))]


def terms(rows: list[Row], out: list[bool], loss: ClipCovLoss) -> list[Any]:
    result: list[Any] = []
    for row in rows:
        for t in range(row.length):
            advantage, ratio = row.advantage[t], (row.lp[t] - row.old[t]).exp()
            if out[len(result)]:
                result.append(0.0)
            elif clipped({"lp": row.lp[t].item(), "old": row.old[t], "A": advantage}, loss):
                result.append(-advantage * (1 + loss.epsilon_high if advantage > 0 else 1 - loss.epsilon_low))
            else:
                result.append(-advantage * ratio)
    return result


def away_from_bounds(rows: list[Row], loss: ClipCovLoss) -> bool:
    """No covariance lies so near a bound that its rounding decides."""
    size = 1e-12 * (1 + max(abs(step["A"]) for step in floats(rows)) * max(abs(step["lp"]) for step in floats(rows)))
    return all(
        abs(part - Fraction(bound)) > size
        for part in exact_covariances(rows)
        for bound in (loss.cov_low, loss.cov_high)
    )


@pytest.mark.parametrize("options", MODES)
@formula_cases
@given(case=planned_cases(per_step=True))
def test_equals_its_formula(options: dict[str, Any], case: Planned) -> None:
    rows, uniforms = case
    loss = ClipCovLoss(**options)
    assume(away_from_bounds(rows, loss))
    out = chosen(rows, uniforms, loss)
    plan = loss.plan(update_of(rows, uniforms))
    assert plan.tolist() == [float(each) for each in out]
    expect_formula(loss, rows, lambda seen: terms(seen, out, loss), plan_S=plan)


@pytest.mark.parametrize("options", MODES)
@formula_cases
@given(case=planned_cases(per_step=True), seed=st.randoms(use_true_random=False))
def test_cuts_and_the_order_of_rows_change_nothing(options: dict[str, Any], case: Planned, seed: Any) -> None:
    rows, uniforms = case
    loss = ClipCovLoss(**options)
    assume(away_from_bounds(rows, loss))
    expect_any_cut(loss, rows, uniforms)
    order = list(range(len(rows)))
    seed.shuffle(order)
    expect_same_plan_for_permuted_rows(loss, rows, uniforms, order)


def four_steps() -> list[Row]:
    """Two rows; means of A and of log pi are 0 and -4: covariances 3, 1, 1, 3 from A = 1, 1, -1, -1."""
    first, second = [-1.0, -3.0], [-5.0, -7.0]
    return [Row(0, first, first, first, [1.0, 1.0]), Row(0, second, second, second, [-1.0, -1.0])]


def test_chooses_candidates_of_the_smallest_draw_by_hand() -> None:
    # Bounds are strict: with cov_low = 1 the candidates are steps 0 and 3.
    update = update_of(four_steps(), [0.9, 0.1, 0.2, 0.8])
    assert ClipCovLoss().plan(update).tolist() == [0, 0, 0, 1]
    assert ClipCovLoss(fraction=0.5).plan(update).tolist() == [1, 0, 0, 1]
    assert ClipCovLoss(fraction=0.74).plan(update).tolist() == [1, 0, 0, 1], "floor(0.74 * 4) is 2"
    assert ClipCovLoss(fraction=1.0, cov_high=3.0).plan(update).tolist() == [0, 0, 0, 0], "no candidates"
    assert ClipCovLoss(fraction=0.5, cov_low=0.5).plan(update).tolist() == [0, 1, 1, 0]
    assert ClipCovLoss(fraction=1.0, cov_low=0.5).plan(update).tolist() == [1, 1, 1, 1]


def test_steps_that_are_clipped_are_no_candidates() -> None:
    rows = four_steps()
    rows[1].old = [-5.0, -6.0]  # A < 0 and the ratio e^-1
    assert ClipCovLoss().plan(update_of(rows, [0.9, 0.1, 0.2, 0.8])).tolist() == [1, 0, 0, 0]
    rows[1].old = [-5.0, -8.0]  # A < 0 and the ratio e
    assert ClipCovLoss().plan(update_of(rows, [0.9, 0.1, 0.2, 0.8])).tolist() == [0, 0, 0, 1]


def test_terms_and_metrics_by_hand() -> None:
    # ratio 2, 1/2, 1/2, 2 with A = 1, 1, -1, -1: clipped 1.2, -, 0.8, -; the last step is taken out.
    rows = four_steps()
    for row, ratios in zip(rows, [[2.0, 0.5], [0.5, 2.0]], strict=True):
        row.old = [lp - math.log(ratio) for lp, ratio in zip(row.lp, ratios, strict=True)]
    plan = torch.tensor([0.0, 0.0, 0.0, 1.0])
    total, gradient = sum_and_gradient(ClipCovLoss(), rows, plan, [])
    torch.testing.assert_close(total, torch.tensor(-1.2 - 0.5 + 0.8, dtype=torch.float64))
    torch.testing.assert_close(gradient, torch.tensor([0.0, -0.5, 0.0, 0.0], dtype=torch.float64))
    inputs = inputs_of(rows)
    metrics = ClipCovLoss()(replace(inputs, plan_S=plan)).step_metrics
    assert metrics["clip_fraction_low"].tolist() == [0, 0, 1, 0]
    assert metrics["clip_fraction_high"].tolist() == [1, 0, 0, 0]
    assert metrics["clip_fraction_cov"].tolist() == [0, 0, 0, 1]
    torch.testing.assert_close(metrics["ratio"], torch.tensor([2.0, 0.5, 0.5, 2.0], dtype=torch.float64))
    assert not any(metric.requires_grad for metric in metrics.values())


@pytest.mark.parametrize("advantage", [0.0, 0.1, -1e6])
def test_without_candidates_it_is_the_clipped_loss(advantage: float) -> None:
    many = [Row(0, [-1.0, -9.0], [-1.0, -9.0], [-1.0, -9.0], [advantage] * 2)] * 3
    assert ClipCovLoss().plan(update_of(many)).tolist() == [0.0] * 6
    assert ClipCovLoss().plan(update_of(many[:1])).tolist() == [0.0] * 2
    one = [Row(0, [-1.0], [-1.0], [-1.0], [advantage])]
    assert ClipCovLoss().plan(update_of(one)).tolist() == [0.0]
    assert sum_and_gradient(ClipCovLoss(), one, torch.zeros(1), [])[1].tolist() == [-advantage]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("log_ratio", [-500.0, -40.0, 40.0, 500.0])
def test_extreme_ratios_are_finite(log_ratio: float, dtype: torch.dtype) -> None:
    rows = [Row(0, [-1.0] * 3, [-1.0 - log_ratio] * 3, [-1.0] * 3, [0.0, 1e6, -1e6])]
    inputs = inputs_of(rows, dtype=dtype)
    plan = ClipCovLoss(cov_low=-1e9, cov_high=1e9).plan(update_of(rows))
    found = ClipCovLoss()(replace(inputs, plan_S=plan)).terms
    gradient = torch.autograd.grad(found.sum(), inputs.log_probs_S)[0]
    assert found.dtype == dtype
    assert found.isfinite().all()
    assert gradient.isfinite().all()
    assert found[0].item() == gradient[0].item() == 0.0


def test_formula_holds_its_numbers() -> None:
    formula = ClipCovLoss(epsilon_high=0.28).formula()
    assert formula.text.startswith("l_it = ")
    assert "1.28" in formula.text
    assert "1.28" in formula.latex
    assert "0.0002" in formula.symbols["D"]


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("fraction", 0.0),
        ("fraction", 1.1),
        ("cov_low", -math.inf),
        ("cov_high", 1.0),
        ("epsilon_low", 1.1),
        ("epsilon_high", math.inf),
    ],
)
def test_wrong_values_are_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        ClipCovLoss(**{setting: value})
    assert error.value.setting == setting
