from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given

from grpo_lightning.errors import ConfigError
from grpo_lightning.losses.fipo import FIPOLoss
from helpers.adversarial import Row, cases, expect_formula, formula_cases, inputs_of

MODES: list[dict[str, Any]] = [
    {},
    {"half_life": 1.0, "high_only": False},
    {"half_life": 0.25, "influence": 1.0, "high_only": False, "safety": 1.0},
    {"half_life": 1e6, "safety": 1.5, "dual_clip": 3.0, "epsilon_high": 0.2},
]


def influence(row: Row, t: int, loss: FIPOLoss) -> float:
    future = 0.0
    for s in range(t, row.length):
        log_ratio = row.lp[s].item() - row.old[s]
        if log_ratio <= math.log(loss.dual_clip):
            future += 2.0 ** (-(s - t) / loss.half_life) * log_ratio
    weight = math.exp(min(future, 700.0))
    weight = min(max(weight, 1.0 if loss.high_only else 1.0 - loss.influence), 1.0 + loss.influence)
    if row.advantage[t] < 0 and row.lp[t].item() - row.old[t] > math.log(loss.safety):
        weight = min(max(weight, 0.8), 1.0)
    return weight


def reference(loss: FIPOLoss) -> Any:
    def terms(rows: list[Row]) -> list[Any]:
        result: list[Any] = []
        for row in rows:
            for t in range(row.length):
                advantage, ratio = row.advantage[t], (row.lp[t] - row.old[t]).exp()
                if advantage > 0 and ratio.item() > 1 + loss.epsilon_high:
                    ratio = 1 + loss.epsilon_high
                elif advantage < 0 and ratio.item() < 1 - loss.epsilon_low:
                    ratio = 1 - loss.epsilon_low
                elif advantage < 0 and ratio.item() > loss.dual_clip:
                    ratio = loss.dual_clip
                result.append(-influence(row, t, loss) * advantage * ratio)
        return result

    return terms


@pytest.mark.parametrize("options", MODES)
@formula_cases
@given(rows=cases(per_step=True))
def test_equals_its_formula(options: dict[str, Any], rows: list[Row]) -> None:
    loss = FIPOLoss(**options)
    expect_formula(loss, rows, reference(loss))


def moved(log_ratios: list[float], advantage: float) -> Row:
    steps = len(log_ratios)
    return Row(0, [-2.0] * steps, [-2.0 - each for each in log_ratios], [-2.0] * steps, [advantage] * steps)


def weights(loss: FIPOLoss, *rows: Row) -> list[float]:
    found: list[float] = loss(inputs_of(list(rows))).step_metrics["influence"].tolist()
    return found


def test_weights_by_hand() -> None:
    # gamma 1/2. Row one: 0.04 + 0.02, 0.08/2 + 0, 0.08; row two: -0.1, alone.
    loss = FIPOLoss(half_life=1.0, high_only=False)
    rows = moved([0.04, 0.0, 0.08], 1.0), moved([-0.1], 1.0)
    expected = [0.06, 0.04, 0.08, -0.1]
    assert weights(loss, *rows) == pytest.approx([math.exp(each) for each in expected])
    assert weights(FIPOLoss(half_life=1.0), *rows) == pytest.approx(
        [math.exp(each) for each in [0.06, 0.04, 0.08, 0.0]]
    )
    assert weights(FIPOLoss(half_life=1.0, influence=0.05), *rows)[:3] == pytest.approx([1.05, math.exp(0.04), 1.05])
    assert weights(FIPOLoss(half_life=1.0, influence=0.05, high_only=False), rows[1]) == pytest.approx([0.95])


def test_the_sign_of_the_advantage_does_not_turn_the_weight() -> None:
    loss = FIPOLoss(high_only=False)
    assert weights(loss, moved([0.05, 0.1], 1.0)) == weights(loss, moved([0.05, 0.1], -1.0))


def test_steps_above_the_dual_clip_say_nothing_and_do_not_move() -> None:
    loss = FIPOLoss(half_life=1e9, dual_clip=3.0)
    row = moved([0.01, math.log(4), 0.02], -1.0)
    inputs = inputs_of([row])
    result = loss(inputs)
    assert result.step_metrics["influence"].tolist() == pytest.approx([math.exp(0.03), math.exp(0.02), math.exp(0.02)])
    assert result.step_metrics["clip_fraction_dual"].tolist() == [0, 1, 0]
    assert result.terms[1].item() == pytest.approx(3.0 * math.exp(0.02))
    assert torch.autograd.grad(result.terms.sum(), inputs.log_probs_S)[0][1].item() == 0.0


def test_safety_holds_the_weight_of_steps_that_grew_against_their_advantage() -> None:
    log2 = math.log(2)
    rows = moved([log2], -1.0), moved([log2], 1.0), moved([log2, -1.5], -1.0)
    assert weights(FIPOLoss(safety=1.9), *rows) == pytest.approx([1.0, 1.2, 1.0, 1.0])
    assert weights(FIPOLoss(safety=1.9, high_only=False, influence=0.5), *rows)[2] == pytest.approx(0.8)
    assert weights(FIPOLoss(safety=2.1), *rows) == pytest.approx([1.2, 1.2, 1.0, 1.0])


def test_terms_and_metrics_by_hand() -> None:
    # One step each: ratio 1.1 and weight 1.1; ratio 2 clipped at 1.28, weight 1.2; ratio 1/2 clipped at 0.8, weight 1.
    rows = [moved([math.log(1.1)], 2.0), moved([math.log(2)], 1.0), moved([-math.log(2)], -1.0)]
    inputs = inputs_of(rows)
    result = FIPOLoss()(inputs)
    assert result.terms.tolist() == pytest.approx([-2 * 1.1 * 1.1, -1.2 * 1.28, 0.8])
    slopes = torch.autograd.grad(result.terms.sum(), inputs.log_probs_S)[0]
    assert slopes.tolist() == pytest.approx([-2 * 1.1 * 1.1, 0.0, 0.0])
    assert result.step_metrics["clip_fraction_high"].tolist() == [0, 1, 0]
    assert result.step_metrics["clip_fraction_low"].tolist() == [0, 0, 1]
    assert result.step_metrics["ratio"].tolist() == pytest.approx([1.1, 2.0, 0.5])
    assert not any(metric.requires_grad for metric in result.step_metrics.values())


def test_the_old_policy_has_the_plain_policy_gradient() -> None:
    row = Row(0, [-1.0, -2.0, -1.0], [-1.0, -2.0, -1.0], [-7.0] * 3, [1.5, -0.5, 0.0])
    inputs = inputs_of([row])
    terms = FIPOLoss(high_only=False)(inputs).terms
    assert terms.tolist() == [-1.5, 0.5, 0.0]
    assert torch.autograd.grad(terms.sum(), inputs.log_probs_S)[0].tolist() == [-1.5, 0.5, 0.0]


@pytest.mark.parametrize("options", MODES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("log_ratio", [-500.0, -40.0, 40.0, 500.0])
def test_extreme_ratios_are_finite(options: dict[str, Any], log_ratio: float, dtype: torch.dtype) -> None:
    inputs = inputs_of([Row(0, [-1.0] * 3, [-1.0 - log_ratio] * 3, [-1.0] * 3, [0.0, 1e6, -1e6])], dtype=dtype)
    terms = FIPOLoss(**options)(inputs).terms
    slopes = torch.autograd.grad(terms.sum(), inputs.log_probs_S)[0]
    assert terms.dtype == dtype
    assert terms.isfinite().all()
    assert slopes.isfinite().all()
    assert terms[0].item() == slopes[0].item() == 0.0


def test_formula_holds_its_numbers() -> None:
    formula = FIPOLoss(half_life=1.0, influence=0.3).formula()
    assert formula.text.startswith("l_it = ")
    assert "0.5^(s - t)" in formula.text
    assert ", 1, 1.3)" in formula.text
    assert "1.28" in formula.latex
    assert "0.7, 1.3" in FIPOLoss(influence=0.3, high_only=False).formula().latex


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("half_life", 0.0),
        ("influence", 1.1),
        ("high_only", "yes"),
        ("safety", 0.5),
        ("dual_clip", 1.28),
        ("epsilon_low", -0.1),
        ("epsilon_high", math.inf),
    ],
)
def test_wrong_values_are_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        FIPOLoss(**{setting: value})
    assert error.value.setting == setting
