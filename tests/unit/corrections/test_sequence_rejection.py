from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given

from grpo_lightning.corrections.sequence_rejection import SequenceRejection
from grpo_lightning.errors import ConfigError
from helpers.adversarial import Row, cases, formula_cases
from helpers.correction_cases import expect_weights, far_apart, no_steps, ratio_rows


def term(log_kappa: float, statistic: str) -> float:
    """One step's part of the statistic."""
    if statistic == "k1":
        return log_kappa
    return log_kappa**2 / 2 if statistic == "k2" else math.exp(log_kappa) - 1 - log_kappa


def reference(rows: list[Row], statistic: str, over: str, bounds: dict[str, float]) -> list[float]:
    """The rule, row by row."""
    weights = []
    for row in rows:
        terms = [term(old - mu, statistic) for old, mu in zip(row.old, row.mu, strict=True)]
        if over == "step":
            summed = terms
        elif over == "max":
            summed = [max(terms)] * row.length
        else:
            summed = [math.fsum(terms) / (row.length if over == "mean" else 1)] * row.length
        for value in summed:
            if statistic == "k1":
                kept = bounds["low"] <= math.exp(value) <= bounds["high"]
            else:
                kept = value <= bounds["limit"]
            weights.append(float(kept))
    return weights


MODES: list[tuple[str, str, dict[str, float]]] = [
    ("k1", "step", {"low": 0.6, "high": 1.7}),
    ("k1", "sum", {"low": 0.5, "high": 2.1}),
    ("k1", "mean", {"low": 0.9, "high": 1.2}),
    *[("k2", over, {"limit": limit}) for over, limit in (("step", 0.03), ("sum", 0.31), ("mean", 0.05), ("max", 0.07))],
    *[("k3", over, {"limit": limit}) for over, limit in (("step", 0.03), ("sum", 0.31), ("mean", 0.05), ("max", 0.07))],
]
modes = pytest.mark.parametrize(("statistic", "over", "bounds"), MODES, ids=lambda each: str(each))


@modes
@formula_cases
@given(rows=cases())
def test_equals_its_formula(statistic: Any, over: Any, bounds: dict[str, float], rows: list[Row]) -> None:
    correction = SequenceRejection(statistic=statistic, over=over, **bounds)
    expect_weights(correction, rows, lambda seen: reference(seen, statistic, over, bounds))


def kept(correction: SequenceRejection) -> list[float]:
    # Row 0: ratios 1/2 and 4, log sum log 2. Row 1: 1.05 twice. Row 2: exactly 1.
    return correction(ratio_rows([[0.5, 4.0], [1.05, 1.05], [1.0]])).tolist()


def test_ratios_by_hand() -> None:
    # Geometric means sqrt 2, 1.05 and 1; products 2, 1.1025 and 1.
    assert kept(SequenceRejection(low=0.9, high=1.1)) == [0, 0, 1, 1, 1]
    assert kept(SequenceRejection()) == [0, 0, 0, 0, 1]
    assert kept(SequenceRejection(over="sum", low=0.9, high=1.1)) == [0, 0, 0, 0, 1]
    assert kept(SequenceRejection(over="sum", high=2.5)) == [1, 1, 1, 1, 1]
    assert kept(SequenceRejection(over="step", low=0.4, high=2.0)) == [1, 0, 1, 1, 1]


def test_k2_and_k3_by_hand() -> None:
    # k2 of row 0: 0.2402 and 0.9609; of row 1: 0.00119 twice.
    assert kept(SequenceRejection(statistic="k2", over="step", limit=0.5)) == [1, 0, 1, 1, 1]
    assert kept(SequenceRejection(statistic="k2", over="mean", limit=0.61)) == [1, 1, 1, 1, 1]
    assert kept(SequenceRejection(statistic="k2", over="mean", limit=0.6)) == [0, 0, 1, 1, 1]
    assert kept(SequenceRejection(statistic="k2", over="max", limit=0.95)) == [0, 0, 1, 1, 1]
    assert kept(SequenceRejection(statistic="k2", over="sum", limit=0.002)) == [0, 0, 0, 0, 1]
    # k3 of row 0: 1/2 - 1 + log 2 = 0.1931 and 4 - 1 - log 4 = 1.6137; of row 1: 0.00121 twice.
    assert kept(SequenceRejection(statistic="k3", over="step", limit=0.2)) == [1, 0, 1, 1, 1]
    assert kept(SequenceRejection(statistic="k3")) == [0, 0, 1, 1, 1]
    assert kept(SequenceRejection(statistic="k3", over="sum", limit=1.81)) == [1, 1, 1, 1, 1]
    assert kept(SequenceRejection(statistic="k3", over="max", limit=1.6)) == [0, 0, 1, 1, 1]


@modes
@pytest.mark.parametrize("log_ratio", [-500.0, 500.0, 1e6])
def test_extreme_ratios_are_left_out(statistic: Any, over: Any, bounds: dict[str, float], log_ratio: float) -> None:
    correction = SequenceRejection(statistic=statistic, over=over, **bounds)
    assert correction(far_apart(log_ratio)).tolist() == [0.0] * 3
    assert correction(far_apart(0.0)).tolist() == [1.0] * 3
    assert correction(no_steps()).shape == (0,)


def test_what_it_goes_with() -> None:
    assert SequenceRejection().level == "sequence"
    assert SequenceRejection(over="step", low=0.5, high=2.0).level == "step"
    assert not SequenceRejection().whole_update
    remaining = SequenceRejection(denominator="remaining")
    assert (remaining.denominator, remaining.whole_update) == ("remaining", True)
    assert SequenceRejection()(far_apart(0.0)).dtype == torch.float32


def test_its_equation() -> None:
    text = SequenceRejection().formula().text
    assert text == "c_it = 1[0.999 <= exp((1/l_i) sum_t log kappa_it) <= 1.001]"
    text = SequenceRejection(statistic="k3", over="max", limit=0.5).formula().text
    assert text == "c_it = 1[max_t kappa_it - 1 - log kappa_it <= 0.5]"


@pytest.mark.parametrize(
    ("setting", "arguments"),
    [
        ("statistic", {"statistic": "k4"}),
        ("over", {"over": "token"}),
        ("over", {"over": "max"}),
        ("denominator", {"denominator": "some"}),
        ("low", {"low": 0.0}),
        ("low", {"low": 1.1}),
        ("high", {"high": 0.9}),
        ("high", {"high": math.inf}),
        ("low", {"over": "step", "high": 2.0}),
        ("high", {"over": "step", "low": 0.5}),
        ("limit", {"limit": 1.0}),
        ("low", {"statistic": "k2", "low": 0.5, "limit": 1.0}),
        ("high", {"statistic": "k3", "high": 1.5}),
        ("limit", {"statistic": "k2"}),
        ("limit", {"statistic": "k3", "over": "sum"}),
        ("limit", {"statistic": "k3", "limit": 0.0}),
    ],
)
def test_wrong_values_are_refused_by_name(setting: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as error:
        SequenceRejection(**arguments)
    assert error.value.setting == setting
