from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grpo_lightning.errors import ConfigError
from grpo_lightning.losses.real import REALLoss
from helpers.adversarial import Row, cases, expect_formula, formula_cases, inputs_of

MODES: list[dict[str, Any]] = [{}, {"tau": 5.0}, {"tau": 0.05}]


def score(row: Row) -> Any:
    total = row.lp[0] * 0
    for t in range(row.length):
        total = total + (row.lp[t] - row.old[t])
    return total / row.length


def softplus_of(values: list[Any]) -> Any:
    """log(1 + sum exp(value)): the largest is taken out of the sum, and a sum below 1 keeps its digits."""
    largest = max([0.0, *(value.item() for value in values)])
    total = values[0] * 0
    for value in values:
        total = total + (value - largest).exp()
    return torch.log1p(total) if largest == 0 else largest + (total + math.exp(-largest)).log()


def reference(loss: REALLoss) -> Any:
    def terms(rows: list[Row]) -> list[Any]:
        result: list[Any] = []
        for group in sorted({row.group for row in rows}):
            members = [row for row in rows if row.group == group]
            positive = [-score(row) / loss.tau for row in members if row.A > 0]
            negative = [score(row) / loss.tau for row in members if row.A <= 0]
            result.append(softplus_of(negative) + softplus_of(positive) if positive and negative else 0.0)
        return result

    return terms


@pytest.mark.parametrize("options", MODES)
@formula_cases
@given(rows=cases(rows=9), seed=st.randoms(use_true_random=False))
def test_equals_its_formula(options: dict[str, Any], rows: list[Row], seed: Any) -> None:
    loss = REALLoss(**options)
    rows = list(rows)
    seed.shuffle(rows)  # rows of a group in any order, groups interleaved
    expect_formula(loss, rows, reference(loss))


def row(group: int, advantage: float, log_ratios: list[float]) -> Row:
    steps = len(log_ratios)
    return Row(group, [-2.0] * steps, [-2.0 - each for each in log_ratios], [-2.0] * steps, [advantage] * steps)


def value_and_gradient(loss: REALLoss, rows: list[Row]) -> tuple[list[float], list[float]]:
    inputs = inputs_of(rows)
    terms = loss(inputs).terms
    return terms.tolist(), torch.autograd.grad(terms.sum(), inputs.log_probs_S)[0].tolist()


def test_by_hand() -> None:
    # tau 1; z = log 2 and 0 of the negatives, log 2 of the positive: log(1 + 2 + 1) + log(1 + 1/2).
    log2 = math.log(2)
    rows = [row(4, -1.0, [2 * log2, 0.0]), row(4, 3.0, [log2]), row(4, 0.0, [0.0])]
    terms, slopes = value_and_gradient(REALLoss(tau=1.0), rows)
    assert terms == pytest.approx([math.log(4) + math.log(1.5)])
    assert slopes == pytest.approx([1 / 4, 1 / 4, -1 / 3, 1 / 4])
    terms, slopes = value_and_gradient(REALLoss(tau=0.5), rows)
    assert terms == pytest.approx([math.log(1 + 4 + 1) + math.log(1 + 1 / 4)])
    assert slopes == pytest.approx([2 / 3, 2 / 3, -2 / 5, 1 / 3])


def test_groups_are_ascending_and_rows_in_any_order() -> None:
    rows = [row(7, 1.0, [0.3]), row(2, -1.0, [0.1, 0.2]), row(7, -1.0, [0.5]), row(2, 2.0, [-0.4])]
    terms, slopes = value_and_gradient(REALLoss(), rows)
    first, _ = value_and_gradient(REALLoss(), [rows[1], rows[3]])
    second, _ = value_and_gradient(REALLoss(), [rows[0], rows[2]])
    assert terms == pytest.approx([*first, *second])
    again, moved = value_and_gradient(REALLoss(), rows[::-1])
    assert again == pytest.approx(terms)
    # Rows of 1, 2, 1 and 1 steps.
    assert moved == pytest.approx([slopes[4], slopes[3], slopes[1], slopes[2], slopes[0]])


@pytest.mark.parametrize("advantages", [[1.0, 2.0], [-1.0, -2.0], [0.0, 0.0], [0.0, -1.0], [1.0], [0.0]])
def test_groups_without_both_signs_have_term_zero_and_no_gradient(advantages: list[float]) -> None:
    silent = [row(0, advantage, [20.0, -3.0]) for advantage in advantages]
    terms, slopes = value_and_gradient(REALLoss(), silent)
    assert terms == [0.0]
    assert slopes == [0.0] * 2 * len(silent)
    terms, slopes = value_and_gradient(REALLoss(), [*silent, row(1, 1.0, [0.1]), row(1, -1.0, [0.1])])
    assert terms[0] == 0.0
    assert terms[1] > 0.0
    assert slopes[: 2 * len(silent)] == [0.0] * 2 * len(silent)


def test_the_size_of_the_advantage_does_not_count() -> None:
    small, large = ([row(0, size, [0.3]), row(0, -size, [0.1])] for size in (1e-6, 1e6))
    assert value_and_gradient(REALLoss(), small) == value_and_gradient(REALLoss(), large)


def test_tiny_terms_keep_their_digits() -> None:
    terms, slopes = value_and_gradient(REALLoss(tau=1.0), [row(0, 1.0, [40.0]), row(0, -1.0, [-50.0])])
    assert terms == pytest.approx([math.exp(-40) + math.exp(-50)], rel=1e-10)
    assert slopes == pytest.approx([-math.exp(-40), math.exp(-50)], rel=1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("log_ratio", [-500.0, -40.0, 40.0, 500.0])
def test_extreme_ratios_are_finite_and_gradients_bounded(log_ratio: float, dtype: torch.dtype) -> None:
    rows = [row(0, 1e6, [log_ratio]), row(0, -1e6, [log_ratio]), row(0, -1e6, [-log_ratio])]
    inputs = inputs_of(rows, dtype=dtype)
    result = REALLoss(tau=0.5)(inputs)
    slopes = torch.autograd.grad(result.terms.sum(), inputs.log_probs_S)[0]
    assert result.terms.dtype == dtype
    assert result.terms.isfinite().all()
    assert result.step_metrics["ratio"].isfinite().all()
    assert (slopes.abs() <= 2.0).all()
    # The positive row is far below or far above 0, one of the negative ones far above: 2 |log_ratio| a row that is wrong.
    wrong = 2 if log_ratio < 0 else 1
    assert result.terms.tolist() == pytest.approx([wrong * 2 * abs(log_ratio)])


def test_what_it_declares() -> None:
    assert REALLoss.scope == "group"
    assert REALLoss.aggregations == {"prompt_mean"}
    assert "mean over groups" in REALLoss.why_aggregations
    inputs = inputs_of([row(0, 1.0, [math.log(2)])])
    metrics = REALLoss()(replace(inputs)).step_metrics
    assert metrics["ratio"].tolist() == pytest.approx([2.0])
    assert not metrics["ratio"].requires_grad


def test_formula_holds_its_number() -> None:
    formula = REALLoss(tau=0.25).formula()
    assert formula.text.startswith("l_g = ")
    assert formula.text.count("0.25") == 2
    assert formula.latex.count("0.25") == 2


@pytest.mark.parametrize(("setting", "value"), [("tau", 0.0), ("tau", math.inf)])
def test_wrong_values_are_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        REALLoss(**{setting: value})
    assert error.value.setting == setting
