from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grpo_lightning.errors import ConfigError
from grpo_lightning.losses.clipped import ClippedPolicyLoss
from grpo_lightning.losses.decoupled import DecoupledPPO
from helpers.adversarial import Reference, Row, cases, expect_formula, formula_cases, inputs_of
from helpers.extreme_ratios import EXTREMES, expect_finite


def reference(low: float, high: float, cap: float | None, drop: bool, interpolated: bool) -> Reference:
    def terms(rows: list[Row]) -> list[Any]:
        found = []
        for row in rows:
            # Old weights are of version 3, current ones of version 4: see inputs_of.
            alpha = (3 - row.version) / (4 - row.version)
            for lp, old, mu, advantage in zip(row.lp, row.old, row.mu, row.advantage, strict=True):
                proximal = mu + alpha * (lp.item() - mu) if interpolated else old
                weight = math.exp(proximal - mu)
                if cap is not None and weight > cap:
                    weight = 0.0 if drop else cap
                ratio = (lp - proximal).exp()
                plain, clipped = ratio * advantage, min(max(ratio.item(), 1 - low), 1 + high) * advantage
                found.append(-weight * (plain if plain.item() <= clipped else clipped))
        return found

    return terms


@pytest.mark.parametrize("proximal", ["old", "interpolated"])
@pytest.mark.parametrize(
    ("low", "high", "cap", "above_cap"),
    [(0.2, 0.2, None, "drop"), (0.2, 0.28, 2.0, "drop"), (0.2, 0.28, 2.0, "truncate"), (1.0, 5.0, None, "drop")],
)
@formula_cases
@given(data=st.data())
def test_equals_its_formula(
    low: float, high: float, cap: float | None, above_cap: Any, proximal: Any, data: Any
) -> None:
    loss = DecoupledPPO(epsilon_low=low, epsilon_high=high, cap=cap, above_cap=above_cap, proximal=proximal)
    expected = reference(low, high, cap, above_cap == "drop", proximal == "interpolated")
    expect_formula(loss, data.draw(cases(per_step=True)), expected)


@formula_cases
@given(rows=cases(per_step=True))
def test_where_the_old_policy_sampled_it_is_the_clipped_loss(rows: list[Row]) -> None:
    for row in rows:
        row.mu = row.old
    inputs = inputs_of(rows)
    decoupled, clipped = DecoupledPPO()(inputs).terms, ClippedPolicyLoss()(inputs).terms
    torch.testing.assert_close(decoupled, clipped, rtol=1e-12, atol=0)
    (one,) = torch.autograd.grad(decoupled.sum(), inputs.log_probs_S)
    (other,) = torch.autograd.grad(clipped.sum(), inputs.log_probs_S)
    torch.testing.assert_close(one, other, rtol=1e-12, atol=0)


def test_by_hand() -> None:
    # pi_prox / mu is 2, 2, 4 and 1/2; pi_theta / pi_prox is 1.1, 3, 1 and 0.5; the range is [0.8, 1.2].
    ratios, weights, advantages = [1.1, 3.0, 1.0, 0.5], [2.0, 2.0, 4.0, 0.5], [1.0, 1.0, 1.0, -1.0]
    old = [-1.0 - math.log(each) for each in ratios]
    mu = [each - math.log(weight) for each, weight in zip(old, weights, strict=True)]
    inputs = inputs_of([Row(0, [-1.0] * 4, old, mu, advantages)])
    for settings, expected, slopes in (
        ({}, [-2.2, -2.4, -4.0, 0.4], [-2.2, 0.0, -4.0, 0.0]),
        ({"cap": 3.0}, [-2.2, -2.4, 0.0, 0.4], [-2.2, 0.0, 0.0, 0.0]),
        ({"cap": 3.0, "above_cap": "truncate"}, [-2.2, -2.4, -3.0, 0.4], [-2.2, 0.0, -3.0, 0.0]),
    ):
        result = DecoupledPPO(**settings)(inputs)  # type: ignore[arg-type]
        torch.testing.assert_close(result.terms, torch.tensor(expected, dtype=torch.float64))
        (gradient,) = torch.autograd.grad(result.terms.sum(), inputs.log_probs_S)
        torch.testing.assert_close(gradient, torch.tensor(slopes, dtype=torch.float64))
        metrics = result.step_metrics
        assert metrics["clip_fraction_high"].tolist() == [0, 1, 0, 0]
        assert metrics["clip_fraction_low"].tolist() == [0, 0, 0, 1]
        assert metrics["masked_fraction"].tolist() == [0, 0, int("cap" in settings), 0]
        torch.testing.assert_close(metrics["proximal_ratio"], torch.tensor(ratios, dtype=torch.float64))


@pytest.mark.parametrize(
    ("sampled", "old", "current", "alpha"),
    [(0, 3, 4, 0.75), (2, 3, 5, 1 / 3), (3, 3, 5, 0.0), (3, 3, 3, 0.0), (1, 3, 3, 1.0), (4, 3, 4, 0.0)],
)
def test_the_proximal_policy_lies_where_the_versions_say(sampled: int, old: int, current: int, alpha: float) -> None:
    rows = [Row(0, [-1.0], [-7.0], [-1.5], [1.0], version=sampled)]
    inputs = inputs_of(rows, version=current, old_version=old)
    result = DecoupledPPO(proximal="interpolated", epsilon_high=5.0)(inputs)
    assert result.step_metrics["weight"].item() == pytest.approx(math.exp(0.5 * alpha))
    assert result.step_metrics["proximal_ratio"].item() == pytest.approx(math.exp(0.5 * (1 - alpha)))
    # Unclipped, the proximal policy falls out: -pi_theta / mu.
    assert result.terms.item() == pytest.approx(-math.exp(0.5))
    (gradient,) = torch.autograd.grad(result.terms.sum(), inputs.log_probs_S)
    assert gradient.item() == pytest.approx(-math.exp(0.5))


def test_missing_versions_are_an_error_with_a_name() -> None:
    inputs = replace(inputs_of([Row(0, [-1.0], [0.0], [5.0], [1.0])]), behaviour_version_R=None)
    DecoupledPPO()(inputs)
    with pytest.raises(ConfigError, match=r"^proximal: 'interpolated' asks for the versions"):
        DecoupledPPO(proximal="interpolated")(inputs)


def test_it_weighs_the_sampler_itself() -> None:
    assert DecoupledPPO.weighs_sampler


def test_its_formula_holds_its_numbers() -> None:
    assert DecoupledPPO(epsilon_high=0.28).formula().text == (
        "l_it = -sg[pi_prox(it) / mu(it)] min(rho_prox_it A_it, clip(rho_prox_it, 0.8, 1.28) A_it)"
    )
    assert "min(pi_prox(it) / mu(it), 5)" in DecoupledPPO(cap=5.0, above_cap="truncate").formula().text
    dropped = DecoupledPPO(cap=5.0, proximal="interpolated").formula()
    assert "kappa_it 1(kappa_it <= 5)" in dropped.text
    assert "alpha" in dropped.symbols["pi_prox"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("log_ratio", EXTREMES)
def test_extremes_are_finite(log_ratio: float, dtype: torch.dtype) -> None:
    expect_finite(DecoupledPPO(), log_ratio, dtype)


@pytest.mark.parametrize(
    "settings", [{"cap": 2.0}, {"cap": 2.0, "above_cap": "truncate"}, {"proximal": "interpolated"}]
)
@pytest.mark.parametrize("log_ratio", EXTREMES)
def test_extremes_are_finite_in_every_mode(log_ratio: float, settings: Any) -> None:
    expect_finite(DecoupledPPO(**settings), log_ratio, torch.float32)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("epsilon_low", 1.1), ("epsilon_high", -0.1), ("cap", 0.9), ("above_cap", "mask"), ("proximal", "new")],
)
def test_wrong_values_are_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        DecoupledPPO(**{setting: value})
    assert error.value.setting == setting
