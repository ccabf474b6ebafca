from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given

from grpo_lightning.errors import ConfigError
from grpo_lightning.losses.dppo_kl import DPPOKLLoss
from helpers.adversarial import Row, cases, expect_formula, formula_cases, inputs_of

MODES: list[dict[str, Any]] = [{}, {"cap": 20.0}, {"cap": 1.0, "delta_low": 0.0, "delta_high": 0.3}]


def divergence(mu: float, current: float) -> float:
    """KL between two coins, from log-probabilities; 0 log 0 is 0."""
    head, tail = math.exp(mu), -math.expm1(mu)
    total = head * (mu - current)
    if tail > 0:
        other = -math.expm1(current)
        total += tail * math.log(tail / other) if other > 0 else math.inf
    return total


def reference(loss: DPPOKLLoss) -> Any:
    def terms(rows: list[Row]) -> list[Any]:
        result: list[Any] = []
        for row in rows:
            for lp, behaviour, advantage in zip(row.lp, row.mu, row.advantage, strict=True):
                current, mu = min(lp.item(), 0.0), min(behaviour, 0.0)
                weight = min(math.exp(lp.item() - behaviour), math.inf if loss.cap is None else loss.cap)
                distance = divergence(mu, current)
                rose = advantage > 0 and current > mu and distance > loss.delta_high
                fell = advantage < 0 and current < mu and distance > loss.delta_low
                result.append(0.0 if rose or fell else -advantage * weight * (lp - lp.detach()).exp())
        return result

    return terms


@pytest.mark.parametrize("options", MODES)
@formula_cases
@given(rows=cases(per_step=True))
def test_equals_its_formula(options: dict[str, Any], rows: list[Row]) -> None:
    loss = DPPOKLLoss(**options)
    expect_formula(loss, rows, reference(loss))


def steps(current: list[float], sampler: list[float], advantages: list[float]) -> Row:
    """One row with these probabilities."""
    lp = [math.log(each) if each > 0 else -math.inf for each in current]
    return Row(0, lp, [-9.0] * len(lp), [math.log(each) for each in sampler], advantages)


def test_the_region_by_hand() -> None:
    # mu 1/2, pi 3/4 or 1/4: 1/2 log(2/3) + 1/2 log 2 = log(4/3) / 2 = 0.1438. mu 1/2, pi 0.6: 0.0204.
    row = steps([0.75, 0.75, 0.25, 0.25, 0.6, 0.4], [0.5] * 6, [1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
    inputs = inputs_of([row])
    result = DPPOKLLoss()(inputs)
    expected = [0.0, 1.5, -0.5, 0.0, -1.2, 0.8]
    torch.testing.assert_close(result.terms, torch.tensor(expected, dtype=torch.float64))
    (slopes,) = torch.autograd.grad(result.terms.sum(), inputs.log_probs_S)
    torch.testing.assert_close(slopes, torch.tensor(expected, dtype=torch.float64))
    assert result.step_metrics["masked_fraction_high"].tolist() == [1, 0, 0, 0, 0, 0]
    assert result.step_metrics["masked_fraction_low"].tolist() == [0, 0, 0, 1, 0, 0]
    torch.testing.assert_close(
        result.step_metrics["behaviour_ratio"], torch.tensor([1.5, 1.5, 0.5, 0.5, 1.2, 0.8], dtype=torch.float64)
    )
    assert not any(metric.requires_grad for metric in result.step_metrics.values())
    assert DPPOKLLoss.weighs_sampler


@pytest.mark.parametrize(("delta", "masked"), [(0.1437, 1.0), (0.1439, 0.0)])
def test_thresholds_are_in_nats(delta: float, masked: float) -> None:
    row = steps([0.75, 0.25], [0.5, 0.5], [1.0, -1.0])
    metrics = DPPOKLLoss(delta_low=delta, delta_high=0.5)(inputs_of([row])).step_metrics
    assert metrics["masked_fraction_low"].tolist() == [0.0, masked]
    metrics = DPPOKLLoss(delta_low=0.5, delta_high=delta)(inputs_of([row])).step_metrics
    assert metrics["masked_fraction_high"].tolist() == [masked, 0.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_certain_actions(dtype: torch.dtype) -> None:
    # pi and mu: 1 and 1 (no distance), 1 and 1/2 (infinite), 1/2 and 1 (log 2).
    row = steps([1.0, 1.0, 0.5], [1.0, 0.5, 1.0], [1.0, 1.0, -1.0])
    result = DPPOKLLoss()(inputs_of([row], dtype=dtype))
    assert result.terms.tolist() == [-1.0, 0.0, 0.0]
    kept = DPPOKLLoss(delta_low=0.7, delta_high=1e9)(inputs_of([row], dtype=dtype))
    assert kept.terms.tolist() == pytest.approx([-1.0, 0.0, 0.5])


def test_the_cap_holds_the_ratio_and_the_gradient_goes_on() -> None:
    row = steps([1e-3, 1e-3], [1e-5, 1e-5], [2.0, -2.0])  # ratio 100
    inputs = inputs_of([row])
    terms = DPPOKLLoss(cap=20.0)(inputs).terms
    (slopes,) = torch.autograd.grad(terms.sum(), inputs.log_probs_S)
    assert terms.tolist() == pytest.approx([-40.0, 40.0])
    assert slopes.tolist() == pytest.approx([-40.0, 40.0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("log_ratio", [-500.0, -40.0, 40.0, 500.0])
def test_extreme_ratios_are_finite(log_ratio: float, dtype: torch.dtype) -> None:
    rows = [Row(0, [-1.0] * 3, [-1.0] * 3, [-1.0 - log_ratio] * 3, [0.0, 1e6, -1e6])]
    inputs = inputs_of(rows, dtype=dtype)
    found = DPPOKLLoss()(inputs).terms
    slopes = torch.autograd.grad(found.sum(), inputs.log_probs_S)[0]
    assert found.dtype == dtype
    assert found.isfinite().all()
    assert slopes.isfinite().all()
    assert found[0].item() == slopes[0].item() == 0.0


def test_small_moves_of_near_certain_actions_keep_their_digits_in_float32() -> None:
    # 1 - mu is 1e-6 and 1 - pi is 1e-12: d = 1e-6 (log 1e6 - 1) = 1.28e-5, which 1 - exp(.) in float32 would lose.
    row = Row(0, [-1e-12], [-1.0], [-1e-6], [1.0])
    for delta, masked in ((1.27e-5, 1.0), (1.29e-5, 0.0)):
        found = DPPOKLLoss(delta_high=delta)(inputs_of([row], dtype=torch.float32)).step_metrics
        assert found["masked_fraction_high"].tolist() == [masked]


def test_formula_holds_its_numbers() -> None:
    formula = DPPOKLLoss(delta_low=0.03, cap=20.0).formula()
    assert formula.text == "l_it = -M_it min(rho_mu_it, 20) A_it, rho_mu_it = pi_theta / mu"
    assert "20" in formula.latex
    assert "0.03" in formula.symbols["M_it"]


@pytest.mark.parametrize(("setting", "value"), [("delta_low", -0.1), ("delta_high", math.inf), ("cap", -2.0)])
def test_wrong_values_are_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        DPPOKLLoss(**{setting: value})
    assert error.value.setting == setting
