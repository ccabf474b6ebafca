from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from torch import Tensor

from grpo_lightning.corrections import (
    Correction,
    CorrectionInputs,
    IcePop,
    OffPolicySequenceMask,
    ProductCorrection,
    SequenceRejection,
    TruncatedImportance,
)
from grpo_lightning.errors import ConfigError
from helpers.adversarial import Row, cases, formula_cases
from helpers.correction_cases import expect_weights, far_apart, no_steps, ratio_rows


class Counting(Correction):
    """Weight: how often it was told to."""

    name = "counting"
    functionals = frozenset({"entropy"})

    def __init__(self, times: float = 1.0) -> None:
        self.times = times

    def __call__(self, inputs: CorrectionInputs) -> Tensor:
        return torch.full_like(inputs.old_log_probs_S, self.times)

    def state_dict(self) -> dict[str, Any]:
        return {"times": self.times}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.times = state["times"]


@formula_cases
@given(rows=cases())
def test_equals_its_formula(rows: list[Row]) -> None:
    def reference(seen: list[Row]) -> list[float]:
        weights = []
        for row in seen:
            logs = [old - mu for old, mu in zip(row.old, row.mu, strict=True)]
            kept = 0.8 <= math.exp(math.fsum(logs) / row.length) <= 1.3
            away = math.fsum(mu - now for mu, now in zip(row.mu, row.lp, strict=True)) / row.length > 0.01
            silent = math.fsum(row.advantage) < 0 and away
            weights += [min(math.exp(each), 2.0) * kept * (not silent) for each in logs]
        return weights

    parts = [TruncatedImportance(), SequenceRejection(low=0.8, high=1.3), OffPolicySequenceMask(delta=0.01)]
    expect_weights(ProductCorrection(parts=parts), rows, reference)


def test_by_hand() -> None:
    # Geometric means: sqrt(0.8 * 1.25) = 1 and 3.
    inputs = ratio_rows([[0.8, 1.25], [3.0, 3.0]])
    product = ProductCorrection(parts=[SequenceRejection(low=0.9, high=1.1), TruncatedImportance(cap=1.2)])
    torch.testing.assert_close(product(inputs), torch.tensor([0.8, 1.2, 0.0, 0.0], dtype=torch.float64))


def test_it_is_what_all_its_parts_are() -> None:
    rows = ProductCorrection(parts=[SequenceRejection(), OffPolicySequenceMask()])
    assert (rows.level, rows.whole_update, rows.denominator) == ("sequence", False, "original")
    mixed = ProductCorrection(parts=[SequenceRejection(denominator="remaining"), IcePop()])
    assert (mixed.level, mixed.whole_update, mixed.denominator) == ("step", True, "remaining")
    assert ProductCorrection(parts=[TruncatedImportance(normalise=True), IcePop()]).whole_update
    assert ProductCorrection(parts=[Counting(), IcePop()]).functionals == frozenset({"entropy"})


@pytest.mark.parametrize("log_ratio", [-500.0, 500.0])
def test_extreme_ratios(log_ratio: float) -> None:
    product = ProductCorrection(parts=[TruncatedImportance(floor=0.5), SequenceRejection()])
    assert product(far_apart(log_ratio)).tolist() == [0.0] * 3
    assert product(no_steps()).shape == (0,)


def test_state_of_the_parts() -> None:
    product = ProductCorrection(parts=[Counting(3.0), IcePop(), Counting(5.0)])
    other = ProductCorrection(parts=[Counting(), IcePop(), Counting()])
    other.load_state_dict(product.state_dict())
    assert other(far_apart(0.0)).tolist() == [15.0] * 3
    assert ProductCorrection(parts=[IcePop()]).state_dict() == {}
    ProductCorrection(parts=[IcePop()]).load_state_dict({})


def test_its_equation() -> None:
    product = ProductCorrection(parts=[TruncatedImportance(), IcePop()])
    formula = product.formula()
    assert formula is not None
    assert formula.text == "c_it = (min(kappa_it, 2)) * (kappa_it 1[0.5 <= kappa_it <= 5])"
    assert formula.latex.startswith(r"c_{i,t} = \left(\min(")
    assert len(formula.sources) == 2
    alone = ProductCorrection(parts=[IcePop()]).formula()
    assert alone is not None
    assert alone.text == IcePop().formula().text
    assert ProductCorrection(parts=[IcePop(), Counting()]).formula() is None


def test_a_product_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^parts: "):
        ProductCorrection(parts=[])
