from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo_lightning.entropy_bonus import EntropyBonus
from grpo_lightning.errors import ConfigError, NonFiniteError
from helpers.adversarial import formula_cases


def test_a_fixed_coefficient_is_the_weight_whatever_is_observed() -> None:
    bonus = EntropyBonus(weight=0.01)
    bonus.observe(0.0)
    bonus.observe(math.inf)
    assert bonus.coefficient == 0.01
    assert bonus.state_dict() == {}


def test_adapting_by_hand() -> None:
    bonus = EntropyBonus(weight=0.5, target=0.2, step=0.25, highest=1.0)
    seen = []
    for entropy in (0.1, 0.2, 0.1, 0.1, 0.3, 0.1):
        bonus.observe(entropy)
        seen.append(bonus.coefficient)
    # Up, unchanged at the target itself, up, held at the highest, off above the target while going down, up again.
    assert seen == [0.75, 0.75, 1.0, 1.0, 0.0, 1.0]


def test_it_never_turns_into_a_penalty() -> None:
    bonus = EntropyBonus(weight=0.01, target=0.2, step=0.005)
    for _ in range(10):
        bonus.observe(3.0)
    bonus.observe(0.1)
    assert bonus.coefficient == 0.005


def test_nothing_is_added_before_the_entropy_is_known() -> None:
    assert EntropyBonus(weight=0.01, target=0.2).coefficient == 0.0


def test_whether_it_is_active() -> None:
    assert not EntropyBonus().active
    assert EntropyBonus(weight=1e-3).active
    assert EntropyBonus(target=0.2).active


ENTROPY = st.one_of(st.sampled_from([0.0, 0.2, 1e6]), st.floats(0.0, 0.4))


@formula_cases
@given(weight=st.sampled_from([0.0, 0.01, 0.02]), entropies=st.lists(ENTROPY, max_size=30))
def test_equals_its_formula(weight: float, entropies: list[float]) -> None:
    bonus = EntropyBonus(weight=weight, target=0.2, step=0.005, highest=0.02)
    c = weight
    for entropy in entropies:
        bonus.observe(entropy)
        c = c + 0.005 if entropy < 0.2 else c - 0.005 if entropy > 0.2 else c
        c = 0.0 if c < 0.0 else 0.02 if c > 0.02 else c
        assert bonus.coefficient == (c if entropy <= 0.2 else 0.0)


def test_state() -> None:
    bonus, other = EntropyBonus(target=0.2), EntropyBonus(target=0.2)
    bonus.observe(0.1)
    other.load_state_dict(bonus.state_dict())
    assert other.coefficient == bonus.coefficient == 0.005
    EntropyBonus(weight=0.1).load_state_dict({})


def test_what_is_no_number_is_refused() -> None:
    with pytest.raises(NonFiniteError, match="not a number"):
        EntropyBonus(target=0.2).observe(math.nan)


def test_its_equation() -> None:
    assert EntropyBonus(weight=0.01).formula().text == "-0.01 H_it"
    adapted = EntropyBonus(target=0.2).formula()
    assert adapted.text == "-c 1[H <= 0.2] H_it"
    assert adapted.symbols["c"] == (
        "starts at 0; +0.005 after an update with H < 0.2, -0.005 after one with H > 0.2, between 0 and 1"
    )


@pytest.mark.parametrize(
    ("setting", "arguments"),
    [
        ("weight", {"weight": -0.1}),
        ("weight", {"weight": math.inf}),
        ("weight", {"weight": 2.0, "target": 0.2}),
        ("target", {"target": 0.0}),
        ("target", {"target": math.nan}),
        ("step", {"step": 0.0}),
        ("highest", {"target": 0.2, "highest": 0.0}),
    ],
)
def test_wrong_values_are_refused_by_name(setting: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as error:
        EntropyBonus(**arguments)
    assert error.value.setting == setting
