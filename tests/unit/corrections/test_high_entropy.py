from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grpo_lightning.corrections.base import CorrectionInputs
from grpo_lightning.corrections.high_entropy import HighEntropyMask
from grpo_lightning.errors import ConfigError
from helpers.adversarial import Row, cases, formula_cases

Rows = list[list[float]]


def inputs(rows: Rows, dtype: torch.dtype = torch.float64) -> CorrectionInputs:
    """Rows of entropies."""
    lengths = torch.tensor([len(row) for row in rows])
    entropies = torch.tensor([each for row in rows for each in row], dtype=dtype)
    return CorrectionInputs(
        old_log_probs_S=torch.full_like(entropies, -1.0),
        behaviour_log_probs_S=torch.full_like(entropies, -1.0),
        row_S=torch.repeat_interleave(torch.arange(len(rows)), lengths),
        lengths_R=lengths,
        functionals={"entropy": entropies},
    )


def reference(rows: Rows, fraction: float) -> list[float]:
    """A step is kept if fewer than the wanted number of steps have an entropy that is larger by a millionth of it."""
    everything = [each for row in rows for each in row]
    wanted = 1 + math.floor(Fraction(str(fraction)) * (len(everything) - 1))
    result = []
    for each in everything:
        larger = 0
        for other in everything:
            larger += other * (1 - 1e-6) > each
        result.append(1.0 if larger < wanted else 0.0)
    return result


@pytest.mark.parametrize("fraction", [0.2, 0.3, 0.01, 1.0])
@formula_cases
@given(rows=cases(functionals=("entropy",)), ties=st.booleans(), scale=st.sampled_from([1e-6, 1.0, 1e6]))
def test_equals_its_formula(fraction: float, rows: list[Row], ties: bool, scale: float) -> None:
    entropies = [[(round(each, 1) if ties else each) * scale for each in row.functionals["entropy"]] for row in rows]
    weights = HighEntropyMask(fraction=fraction)(inputs(entropies))
    assert weights.tolist() == reference(entropies, fraction)


@formula_cases
@given(rows=cases(functionals=("entropy",)), seed=st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing(rows: list[Row], seed: Any) -> None:
    entropies = [[round(each, 1) for each in row.functionals["entropy"]] for row in rows]
    lengths = [len(row) for row in entropies]
    order = list(range(len(rows)))
    seed.shuffle(order)
    weights = HighEntropyMask()(inputs(entropies)).split(lengths)
    moved = HighEntropyMask()(inputs([entropies[index] for index in order]))
    assert moved.tolist() == torch.cat([weights[index] for index in order]).tolist()


def test_entropies_that_differ_by_rounding_tie() -> None:
    entropies = [[1.0, 2.0, 2.0 - 1e-7, 2.0 - 3e-6, 0.5]]
    assert HighEntropyMask(fraction=0.01)(inputs(entropies)).tolist() == [0.0, 1.0, 1.0, 0.0, 0.0]


def test_by_hand() -> None:
    # Ten steps: 1 + floor(0.2 * 9) = 2 are kept, wherever their rows are.
    rows = [[0.1, 0.9, 0.3], [0.2, 1.0, 0.4, 0.5], [0.6, 0.7, 0.8]]
    weights = HighEntropyMask()(inputs(rows))
    assert weights.tolist() == [0, 1, 0, 0, 1, 0, 0, 0, 0, 0]
    assert HighEntropyMask(fraction=0.4)(inputs(rows)).tolist() == [0, 1, 0, 0, 1, 0, 0, 0, 1, 1]
    assert HighEntropyMask(fraction=1.0)(inputs(rows)).tolist() == [1] * 10


def test_steps_that_reach_the_interpolated_quantile_are_kept() -> None:
    torch.manual_seed(0)
    for steps in (1, 2, 3, 7, 11, 50):
        for fraction in (0.1, 0.2, 0.5):
            entropies = torch.rand(steps, dtype=torch.float64)
            expected = entropies >= torch.quantile(entropies, 1 - fraction) - 1e-12
            assert HighEntropyMask(fraction=fraction)(inputs([entropies.tolist()])).tolist() == expected.tolist()


def test_ties_at_the_edge_are_all_kept() -> None:
    assert HighEntropyMask()(inputs([[0.5, 1.0, 1.0], [1.0, 0.0]])).tolist() == [0, 1, 1, 1, 0]
    assert HighEntropyMask()(inputs([[0.0, 0.0, 0.0], [0.0, 0.0]])).tolist() == [1] * 5


def test_one_step_and_none() -> None:
    assert HighEntropyMask(fraction=1e-6)(inputs([[0.0]])).tolist() == [1.0]
    assert HighEntropyMask()(inputs([[]])).shape == (0,)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_carry_no_gradient_and_the_dtype_of_log_probabilities(dtype: torch.dtype) -> None:
    given_steps = inputs([[0.3, 0.7]], dtype)
    entropies = given_steps.functionals["entropy"].clone().requires_grad_()
    weights = HighEntropyMask()(replace(given_steps, functionals={"entropy": entropies}))
    assert not weights.requires_grad
    assert weights.dtype == dtype
    assert weights.tolist() == [0.0, 1.0]


def test_what_it_declares() -> None:
    correction = HighEntropyMask()
    assert (correction.level, correction.whole_update, correction.functionals) == ("step", True, {"entropy"})
    assert correction.denominator == "original"
    assert HighEntropyMask(denominator="remaining").denominator == "remaining"


def test_formula_holds_its_number() -> None:
    formula = HighEntropyMask(fraction=0.25, denominator="remaining").formula()
    assert formula.text.startswith("c_it = ")
    assert "0.25" in formula.symbols["H*"]
    assert "count the steps with c_it = 1" in formula.symbols["H*"]


@pytest.mark.parametrize(("setting", "value"), [("fraction", 0.0), ("fraction", 1.1), ("denominator", "all")])
def test_wrong_values_are_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        HighEntropyMask(**{setting: value})
    assert error.value.setting == setting
