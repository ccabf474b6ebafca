from __future__ import annotations

import math
from typing import Any

import pytest

from grpo_lightning.errors import ConfigError
from grpo_lightning.kl import K2, KLTerm


def test_a_term_keeps_what_it_is_told() -> None:
    term = KLTerm(estimator=K2(), weight=0.0, where="reward")
    assert (term.estimator.name, term.weight, term.where) == ("k2", 0.0, "reward")
    assert KLTerm(estimator=K2()).where == "loss"
    assert KLTerm(estimator=K2()).target is None
    assert KLTerm(estimator=K2(), target=6.0, horizon=500).horizon == 500


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("weight", -0.1),
        ("weight", math.inf),
        ("weight", math.nan),
        ("where", "prompt"),
        ("target", 0.0),
        ("target", -1.0),
        ("target", math.inf),
        ("horizon", 0),
    ],
)
def test_wrong_values_are_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        KLTerm(estimator=K2(), **{setting: value})
    assert error.value.setting == setting


def test_a_weight_of_nothing_cannot_be_adapted() -> None:
    with pytest.raises(ConfigError, match=r"^weight: 0\.0 stays 0"):
        KLTerm(estimator=K2(), weight=0.0, target=6.0)
