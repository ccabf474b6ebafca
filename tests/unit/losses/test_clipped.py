from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from grpo_lightning.errors import ConfigError
from grpo_lightning.losses.base import LossInputs
from grpo_lightning.losses.clipped import ClippedPolicyLoss


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


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(st.tuples(st.floats(-20, 20), st.floats(-10, 10)), min_size=1, max_size=8),
    low=st.sampled_from([0.0, 0.2, 1.0]),
    high=st.sampled_from([0.0, 0.28, 5.0]),
)
def test_equals_the_formula(steps: list[tuple[float, float]], low: float, high: float) -> None:
    expected, slopes = [], []
    for log_ratio, advantage in steps:
        ratio = math.exp(log_ratio)
        plain, clipped = ratio * advantage, min(max(ratio, 1 - low), 1 + high) * advantage
        expected.append(-min(plain, clipped))
        slopes.append(0.0 if clipped < plain else -plain)
    given_steps = inputs([step[0] for step in steps], [step[1] for step in steps])
    loss = ClippedPolicyLoss(epsilon_low=low, epsilon_high=high)
    torch.testing.assert_close(loss(given_steps).terms, torch.tensor(expected, dtype=torch.float64))
    torch.testing.assert_close(gradient(loss, given_steps), torch.tensor(slopes, dtype=torch.float64))


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
    [("epsilon_low", -0.1), ("epsilon_low", 1.1), ("epsilon_high", -0.1), ("epsilon_high", math.inf)],
)
def test_wrong_ranges_are_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        ClippedPolicyLoss(**{setting: value})
    assert error.value.setting == setting
