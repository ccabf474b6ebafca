from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from grpo_lightning.errors import ConfigError
from grpo_lightning.losses.base import LossInputs
from grpo_lightning.losses.clipped import ClippedPolicyLoss
from helpers.adversarial import Reference, Row, cases, expect_formula, formula_cases
from helpers.extreme_ratios import EXTREMES, expect_finite


def inputs(log_ratios: list[float], advantages: list[float], dtype: torch.dtype = torch.float64) -> LossInputs:
    """One row of steps; the old log-probabilities are 0, so the current ones are the log-ratios."""
    log_probs = torch.tensor(log_ratios, dtype=dtype, requires_grad=True)
    return LossInputs(
        log_probs_S=log_probs,
        old_log_probs_S=torch.zeros_like(log_probs).detach(),
        behaviour_log_probs_S=torch.zeros_like(log_probs).detach(),
        advantages_S=torch.tensor(advantages, dtype=torch.float64),
        row_S=torch.zeros(len(log_ratios), dtype=torch.int64),
        lengths_R=torch.tensor([len(log_ratios)]),
        group_R=torch.zeros(1, dtype=torch.int64),
    )


def gradient(loss: ClippedPolicyLoss, given: LossInputs) -> Tensor:
    return torch.autograd.grad(loss(given).terms.sum(), given.log_probs_S)[0]


def test_by_hand() -> None:
    # ratio:     1/2   1/2   1    1    2     2    1.1   0.9
    # advantage: 1     -1    1    -2   1     -1   1     -1
    # clipped:   -     0.8   -    -    1.2   -    -     -
    ratios = [0.5, 0.5, 1.0, 1.0, 2.0, 2.0, 1.1, 0.9]
    steps = inputs([math.log(ratio) for ratio in ratios], [1.0, -1.0, 1.0, -2.0, 1.0, -1.0, 1.0, -1.0])
    result = ClippedPolicyLoss()(steps)
    expected = [-0.5, 0.8, -1.0, 2.0, -1.2, 2.0, -1.1, 0.9]
    torch.testing.assert_close(result.terms, torch.tensor(expected, dtype=torch.float64))
    slopes = [-0.5, 0.0, -1.0, 2.0, 0.0, 2.0, -1.1, 0.9]
    torch.testing.assert_close(gradient(ClippedPolicyLoss(), steps), torch.tensor(slopes, dtype=torch.float64))
    metrics = result.step_metrics
    assert metrics["clip_fraction_low"].tolist() == [0, 1, 0, 0, 0, 0, 0, 0]
    assert metrics["clip_fraction_high"].tolist() == [0, 0, 0, 0, 1, 0, 0, 0]
    torch.testing.assert_close(metrics["ratio"], torch.tensor(ratios, dtype=torch.float64))
    assert not any(metric.requires_grad for metric in metrics.values())


def test_both_ranges_are_their_own() -> None:
    steps = inputs([math.log(0.6), math.log(1.25), math.log(1.5)], [-1.0, 1.0, 1.0])
    terms = ClippedPolicyLoss(epsilon_low=0.3, epsilon_high=0.28)(steps).terms
    torch.testing.assert_close(terms, torch.tensor([0.7, -1.25, -1.28], dtype=torch.float64))


def test_the_policy_that_sampled_has_ratio_one_and_the_plain_policy_gradient() -> None:
    steps = inputs([0.0, 0.0, 0.0], [1.5, -0.5, 0.0])
    for loss in (ClippedPolicyLoss(), ClippedPolicyLoss(epsilon_low=0.0, epsilon_high=0.0)):
        assert loss(steps).terms.tolist() == [-1.5, 0.5, 0.0]
        assert gradient(loss, steps).tolist() == [-1.5, 0.5, 0.0]


def test_no_lower_bound_with_epsilon_low_one() -> None:
    steps = inputs([-20.0], [-1.0])
    assert ClippedPolicyLoss(epsilon_low=1.0)(steps).terms.item() == pytest.approx(math.exp(-20))


def reference(low: float, high: float, dual: float | None, limit: float | None) -> Reference:
    def terms(rows: list[Row]) -> list[Any]:
        found = []
        for row in rows:
            for lp, old, advantage in zip(row.lp, row.old, row.advantage, strict=True):
                log_ratio = lp - old
                if limit is not None and abs(log_ratio.item()) > limit:
                    log_ratio = torch.tensor(math.copysign(limit, log_ratio.item()), dtype=torch.float64)
                plain = log_ratio.exp() * advantage
                clipped = min(max(log_ratio.exp().item(), 1 - low), 1 + high) * advantage
                term = -plain if plain.item() <= clipped else torch.tensor(-clipped, dtype=torch.float64)
                if dual is not None and advantage < 0 and term.item() > -dual * advantage:
                    term = torch.tensor(-dual * advantage, dtype=torch.float64)
                found.append(term)
        return found

    return terms


@pytest.mark.parametrize(
    ("low", "high", "dual", "limit"),
    [(0.2, 0.2, None, None), (0.2, 0.28, None, None), (0.0, 0.0, None, None), (1.0, 5.0, None, None),
     (0.2, 0.2, 3.0, None), (0.2, 0.28, 1.1, None), (0.2, 0.2, None, 20.0), (0.2, 0.2, 3.0, 5.0)],
)  # fmt: skip
@formula_cases
@given(data=st.data())
def test_equals_its_formula(low: float, high: float, dual: float | None, limit: float | None, data: Any) -> None:
    loss = ClippedPolicyLoss(epsilon_low=low, epsilon_high=high, dual_clip=dual, log_ratio_limit=limit)
    expect_formula(loss, data.draw(cases(per_step=True)), reference(low, high, dual, limit))


def test_dual_clip_by_hand() -> None:
    # ratio 2.5 is below 3, ratio 4 above it; a positive advantage is not affected, nor is the lower bound.
    steps = inputs([math.log(2.5), math.log(4.0), math.log(4.0), math.log(0.5)], [-2.0, -2.0, 2.0, -2.0])
    loss = ClippedPolicyLoss(dual_clip=3.0)
    result = loss(steps)
    torch.testing.assert_close(result.terms, torch.tensor([5.0, 6.0, -2.4, 1.6], dtype=torch.float64))
    torch.testing.assert_close(gradient(loss, steps), torch.tensor([5.0, 0.0, 0.0, 0.0], dtype=torch.float64))
    assert result.step_metrics["clip_fraction_dual"].tolist() == [0, 1, 0, 0]
    assert "clip_fraction_dual" not in ClippedPolicyLoss()(steps).step_metrics


@pytest.mark.parametrize("delta", [1.2, 1.5, 4.0])
def test_dual_clip_is_a_cap_on_the_ratio_before_the_minimum(delta: float) -> None:
    # The other way to write it, for delta >= 1 + epsilon_high: -min(min(rho, delta) A, clip(rho) A).
    ratios = [0.3, 0.8, 1.0, 1.19, 1.3, 1.6, 3.9, 4.1, 50.0]
    expected, advantages, logs = [], [], []
    for advantage in (1.5, -1.5):
        for ratio in ratios:
            expected.append(-min(min(ratio, delta) * advantage, min(max(ratio, 0.8), 1.2) * advantage))
            advantages.append(advantage)
            logs.append(math.log(ratio))
    terms = ClippedPolicyLoss(dual_clip=delta)(inputs(logs, advantages)).terms
    torch.testing.assert_close(terms, torch.tensor(expected, dtype=torch.float64))


def test_the_limit_holds_the_log_ratio_without_a_gradient_beyond() -> None:
    steps = inputs([1.5, 2.5, -2.5, -0.5], [-1.0, -1.0, 1.0, 1.0])
    loss = ClippedPolicyLoss(log_ratio_limit=2.0)
    expected = torch.tensor([math.exp(1.5), math.exp(2.0), -math.exp(-2.0), -math.exp(-0.5)], dtype=torch.float64)
    torch.testing.assert_close(loss(steps).terms, expected)
    slopes = torch.tensor([math.exp(1.5), 0.0, 0.0, -math.exp(-0.5)], dtype=torch.float64)
    torch.testing.assert_close(gradient(loss, steps), slopes)


def test_its_formula_holds_its_numbers() -> None:
    plain = ClippedPolicyLoss(epsilon_high=0.28).formula()
    assert plain.text == "l_it = -min(rho_it A_it, clip(rho_it, 0.8, 1.28) A_it)"
    assert r"\operatorname{clip}(\rho_{i,t}, 0.8, 1.28)" in plain.latex
    assert len(plain.sources) == 2
    both = ClippedPolicyLoss(dual_clip=3.0, log_ratio_limit=20.0).formula()
    assert "-3 A_it) where A_it < 0" in both.text
    assert "-20, 20" in both.symbols["rho_it"]
    assert "3 A_{i,t}" in both.latex


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("log_ratio", [-1000.0, -100.0, -20.0, 0.0, 20.0, 44.0, 100.0, 1000.0])
def test_extreme_ratios_have_finite_terms_and_gradients(log_ratio: float, dtype: torch.dtype) -> None:
    steps = inputs([log_ratio] * 3, [0.0, 2.0, -2.0], dtype)
    terms, slopes = ClippedPolicyLoss()(steps).terms, gradient(ClippedPolicyLoss(), steps)
    assert terms.dtype == dtype
    assert terms.isfinite().all()
    assert slopes.isfinite().all()
    assert terms[0].item() == 0.0
    assert slopes[0].item() == 0.0
    if log_ratio > 1:
        assert slopes[1].item() == 0.0, "far enough in the direction of the advantage"
        assert slopes[2].item() > 0.0, "the gradient goes on where the ratio is held"
    if log_ratio < -1:
        assert slopes[2].item() == 0.0


def test_ratios_up_to_exp_forty_are_exact_in_float32() -> None:
    terms = ClippedPolicyLoss()(inputs([20.0, 40.0], [-1.0, -1.0], torch.float32)).terms
    expected = torch.tensor([math.exp(20), math.exp(40)])
    torch.testing.assert_close(terms, expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("epsilon_low", -0.1), ("epsilon_low", 1.1), ("epsilon_high", -0.1), ("epsilon_high", math.inf), ("dual_clip", 1.0),
     ("dual_clip", -3.0), ("log_ratio_limit", 0.0)],
)  # fmt: skip
def test_wrong_ranges_are_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        ClippedPolicyLoss(**{setting: value})
    assert error.value.setting == setting


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("log_ratio", EXTREMES)
@pytest.mark.parametrize("settings", [{}, {"dual_clip": 3.0}, {"log_ratio_limit": 20.0}])
def test_extremes_are_finite(settings: Any, log_ratio: float, dtype: torch.dtype) -> None:
    expect_finite(ClippedPolicyLoss(**settings), log_ratio, dtype)
