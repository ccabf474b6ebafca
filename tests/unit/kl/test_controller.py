from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo_lightning.errors import ConfigError, NonFiniteError
from grpo_lightning.kl.controller import AdaptiveKL
from helpers.adversarial import formula_cases


def test_by_hand() -> None:
    controller = AdaptiveKL(weight=0.1, target=5.0, horizon=1000)
    controller.update(kl=5.5, rows=100)  # 10 % above: 1 + 0.1 * 0.1
    assert controller.weight == pytest.approx(0.101)
    controller.update(kl=50.0, rows=500)  # clipped to 20 %: 1 + 0.2 * 0.5
    assert controller.weight == pytest.approx(0.101 * 1.1)
    controller.update(kl=-3.0, rows=500)  # an estimate may be negative: 1 - 0.2 * 0.5
    assert controller.weight == pytest.approx(0.101 * 1.1 * 0.9)
    controller.update(kl=5.0, rows=500)
    assert controller.weight == pytest.approx(0.101 * 1.1 * 0.9)


def test_more_rows_than_the_horizon_never_turn_the_weight_round() -> None:
    controller = AdaptiveKL(weight=1.0, target=5.0, horizon=10)
    controller.update(kl=0.0, rows=1000)
    assert controller.weight == pytest.approx(0.8)


NUMBER = st.one_of(st.sampled_from([0.0, 1e-6, 1e6, -1e6]), st.floats(-1e3, 1e3))
STEPS = st.lists(st.tuples(NUMBER, st.integers(0, 200)), max_size=20)


@formula_cases
@given(
    weight=st.sampled_from([1e-6, 0.1, 1e6]),
    target=st.sampled_from([1e-3, 6.0, 1e3]),
    clip=st.sampled_from([0.2, 0.5]),
    steps=STEPS,
)
def test_equals_its_formula(weight: float, target: float, clip: float, steps: list[tuple[float, int]]) -> None:
    controller = AdaptiveKL(weight=weight, target=target, horizon=100, clip=clip)
    for kl, rows in steps:
        controller.update(kl, rows)
        excess = (kl - target) / target
        excess = clip if excess > clip else -clip if excess < -clip else excess
        weight = weight * (1 + excess * (1 if rows > 100 else rows / 100))
        assert controller.weight == pytest.approx(weight, rel=1e-12)
        assert controller.weight > 0


def test_state() -> None:
    controller = AdaptiveKL(weight=0.1, target=5.0)
    controller.update(kl=9.0, rows=64)
    other = AdaptiveKL(weight=0.7, target=5.0)
    other.load_state_dict(controller.state_dict())
    assert other.weight == controller.weight
    assert other.state_dict() == controller.state_dict()


def test_what_is_no_number_is_refused() -> None:
    controller = AdaptiveKL(weight=0.1, target=5.0)
    with pytest.raises(NonFiniteError, match="not a number"):
        controller.update(kl=math.nan, rows=64)
    controller.update(kl=math.inf, rows=10000)
    assert controller.weight == pytest.approx(0.12)


def test_its_equation() -> None:
    text = AdaptiveKL(weight=0.1, target=6.0).formula().text
    assert text == "beta <- beta (1 + clip(KL / 6 - 1, -0.2, 0.2) rows / 10000)"


@pytest.mark.parametrize(
    ("setting", "value"),
    [("weight", 0.0), ("weight", math.inf), ("target", 0.0), ("horizon", 0), ("clip", 0.0), ("clip", 1.0)],
)
def test_wrong_values_are_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        AdaptiveKL(**{"weight": 0.1, "target": 6.0, setting: value})
    assert error.value.setting == setting
