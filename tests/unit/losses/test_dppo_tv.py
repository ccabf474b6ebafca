from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given

from grpo_lightning.errors import ConfigError
from grpo_lightning.losses.dppo_tv import DPPOTVLoss
from helpers.adversarial import Row, cases, expect_formula, formula_cases, inputs_of

MODES: list[dict[str, Any]] = [
    {},
    {"cap": 20.0},
    {"cap": 1.0, "delta_low": 0.01, "delta_high": 0.3},
    {"two_sided": True, "delta_low": 0.1, "delta_high": 0.1},
    {"log_ratio_penalty": 1e-3},
    {"two_sided": True, "log_ratio_penalty": 0.5, "cap": 3.0},
]


def outside(moved: float, advantage: float, loss: DPPOTVLoss) -> bool:
    rose, fell = moved > loss.delta_high, moved < -loss.delta_low
    if loss.two_sided:
        return rose or fell
    return (advantage > 0 and rose) or (advantage < 0 and fell)


def reference(loss: DPPOTVLoss) -> Any:
    def terms(rows: list[Row]) -> list[Any]:
        result: list[Any] = []
        for row in rows:
            for lp, mu, advantage in zip(row.lp, row.mu, row.advantage, strict=True):
                moved = math.exp(min(lp.item(), 0.0)) - math.exp(min(mu, 0.0))
                # The truncated surrogate: its weight is held, its gradient is that of the log-probability.
                weight = min(math.exp(lp.item() - mu), math.inf if loss.cap is None else loss.cap)
                term = -advantage * weight * (lp - lp.detach()).exp()
                if outside(moved, advantage, loss):
                    term = torch.zeros((), dtype=torch.float64)
                result.append(term + loss.log_ratio_penalty * (lp - mu) ** 2)
        return result

    return terms


@pytest.mark.parametrize("options", MODES)
@formula_cases
@given(rows=cases(per_step=True))
def test_equals_its_formula(options: dict[str, Any], rows: list[Row]) -> None:
    loss = DPPOTVLoss(**options)
    expect_formula(loss, rows, reference(loss))


def steps(current: list[float], sampler: list[float], advantages: list[float]) -> Row:
    """One row with these probabilities."""
    lp, mu = [math.log(each) for each in current], [math.log(each) for each in sampler]
    return Row(0, lp, [-9.0] * len(lp), mu, advantages)


def gradient(loss: DPPOTVLoss, row: Row) -> list[float]:
    inputs = inputs_of([row])
    found: list[float] = torch.autograd.grad(loss(inputs).terms.sum(), inputs.log_probs_S)[0].tolist()
    return found


def test_the_region_by_hand() -> None:
    # pi - mu: 0.3, 0.3, -0.3, -0.3, 0.15, -0.15
    row = steps([0.5, 0.5, 0.5, 0.5, 0.4, 0.6], [0.2, 0.2, 0.8, 0.8, 0.25, 0.75], [1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
    result = DPPOTVLoss()(inputs_of([row]))
    expected = [0.0, 2.5, -0.625, 0.0, -1.6, 0.8]
    torch.testing.assert_close(result.terms, torch.tensor(expected, dtype=torch.float64))
    assert gradient(DPPOTVLoss(), row) == pytest.approx(expected)
    assert result.step_metrics["masked_fraction_high"].tolist() == [1, 0, 0, 0, 0, 0]
    assert result.step_metrics["masked_fraction_low"].tolist() == [0, 0, 0, 1, 0, 0]
    both = DPPOTVLoss(two_sided=True)(inputs_of([row]))
    torch.testing.assert_close(both.terms, torch.tensor([0, 0, 0, 0, -1.6, 0.8], dtype=torch.float64))
    assert both.step_metrics["masked_fraction_high"].tolist() == [1, 1, 0, 0, 0, 0]
    assert both.step_metrics["masked_fraction_low"].tolist() == [0, 0, 1, 1, 0, 0]
    assert not any(metric.requires_grad for metric in result.step_metrics.values())


def test_both_thresholds_are_their_own() -> None:
    row = steps([0.5, 0.5], [0.2, 0.8], [1.0, -1.0])
    assert DPPOTVLoss(delta_high=0.35)(inputs_of([row])).step_metrics["masked_fraction_high"].sum() == 0
    assert DPPOTVLoss(delta_low=0.35)(inputs_of([row])).step_metrics["masked_fraction_low"].sum() == 0


def test_the_cap_holds_the_ratio_and_the_gradient_goes_on() -> None:
    row = steps([1e-3, 1e-3], [1e-5, 1e-5], [2.0, -2.0])  # ratio 100, difference 0.00099
    assert DPPOTVLoss(cap=20.0)(inputs_of([row])).terms.tolist() == pytest.approx([-40.0, 40.0])
    assert gradient(DPPOTVLoss(cap=20.0), row) == pytest.approx([-40.0, 40.0])
    assert gradient(DPPOTVLoss(), row) == pytest.approx([-200.0, 200.0])
    metrics = DPPOTVLoss(cap=20.0)(inputs_of([row])).step_metrics
    assert metrics["behaviour_ratio"].tolist() == pytest.approx([100.0, 100.0])


def test_the_penalty_is_paid_by_masked_and_by_silent_steps() -> None:
    row = steps([0.5, 0.2, 0.4], [0.1, 0.1, 0.4], [1.0, 0.0, 0.0])  # the first is masked
    loss = DPPOTVLoss(log_ratio_penalty=0.5)
    expected = [0.5 * math.log(5) ** 2, 0.5 * math.log(2) ** 2, 0.0]
    assert loss(inputs_of([row])).terms.tolist() == pytest.approx(expected)
    assert gradient(loss, row) == pytest.approx([math.log(5), math.log(2), 0.0])
    assert loss.runs_silent
    assert not DPPOTVLoss().runs_silent
    assert DPPOTVLoss.weighs_sampler


@pytest.mark.parametrize("options", MODES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("log_ratio", [-500.0, -40.0, 40.0, 500.0])
def test_extreme_ratios_are_finite(options: dict[str, Any], log_ratio: float, dtype: torch.dtype) -> None:
    rows = [Row(0, [-1.0] * 3, [-1.0] * 3, [-1.0 - log_ratio] * 3, [0.0, 1e6, -1e6])]
    inputs, loss = inputs_of(rows, dtype=dtype), DPPOTVLoss(**options)
    found = loss(inputs).terms
    slopes = torch.autograd.grad(found.sum(), inputs.log_probs_S)[0]
    assert found.dtype == dtype
    assert found.isfinite().all()
    assert slopes.isfinite().all()
    if not loss.runs_silent:
        assert found[0].item() == slopes[0].item() == 0.0


def test_formula_holds_its_numbers() -> None:
    plain = DPPOTVLoss(delta_low=0.15).formula()
    assert plain.text == "l_it = -M_it rho_mu_it A_it, rho_mu_it = pi_theta / mu"
    assert "0.15" in plain.symbols["M_it"]
    assert "A_it" in plain.symbols["M_it"]
    full = DPPOTVLoss(cap=20.0, two_sided=True, log_ratio_penalty=1e-3).formula()
    assert "min(rho_mu_it, 20) A_it + 0.001 (log rho_mu_it)^2" in full.text
    assert "20" in full.latex
    assert "A_it" not in full.symbols["M_it"]


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("delta_low", -0.1),
        ("delta_high", 1.1),
        ("cap", 0.0),
        ("two_sided", "yes"),
        ("log_ratio_penalty", -1e-3),
    ],
)
def test_wrong_values_are_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        DPPOTVLoss(**{setting: value})
    assert error.value.setting == setting
