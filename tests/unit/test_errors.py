from __future__ import annotations

import math

import pytest

from grpo_lightning.errors import (
    ConfigError,
    DataError,
    GRPOError,
    NonFiniteError,
    PluginError,
    RewardError,
    near_matches,
    require,
    require_range,
)


def test_config_error_names_setting_value_reason_and_fix() -> None:
    error = ConfigError("epsilon_low", -0.2, "is outside [0, 1]", "set a value inside that range")
    assert str(error) == "epsilon_low: -0.2 is outside [0, 1]; set a value inside that range"


def test_config_error_is_one_short_line() -> None:
    error = ConfigError("path", "x" * 500, "has\nno   rows", "write\tsome")
    assert "\n" not in str(error)
    assert str(error).endswith("... has no rows; write some")
    assert len(str(error)) == len("path: ") + 120 + len(" has no rows; write some")


def test_path_is_put_before_the_setting_once_a_level() -> None:
    inner = DataError("path", "a.jsonl", "does not exist", "check it")
    outer = inner.under("train").under("data")
    assert type(outer) is DataError
    assert outer.setting == "data.train.path"
    assert (outer.value, outer.reason, outer.fix) == (inner.value, inner.reason, inner.fix)
    assert ConfigError("", 1, "is wrong", "mend it").under("model.loss").setting == "model.loss"


def test_families() -> None:
    assert issubclass(ConfigError, ValueError)
    assert issubclass(DataError, ConfigError)
    assert issubclass(RewardError, RuntimeError)
    assert issubclass(NonFiniteError, ArithmeticError)
    for error in (ConfigError, PluginError, RewardError, NonFiniteError):
        assert issubclass(error, GRPOError)


@pytest.mark.parametrize(
    ("name", "known", "clause"),
    [
        ("clip", ["clipped", "exact"], "did you mean 'clipped'?"),
        ("top_k", ["top_p", "min_p"], "did you mean 'top_p'?"),
        ("zzz", ["b", "a", "a"], "known: a, b"),
        ("zzz", [], "none is registered"),
    ],
)
def test_near_matches(name: str, known: list[str], clause: str) -> None:
    assert near_matches(name, known) == clause


def test_near_matches_joins_several() -> None:
    assert near_matches("group_mean", ["group_means", "group_mein", "other"]).count(" or ") == 1


def test_require() -> None:
    require(True, "a", 1, "is wrong", "mend it")
    with pytest.raises(ConfigError, match="a: 1 is wrong; mend it"):
        require(False, "a", 1, "is wrong", "mend it")


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_closed_range_holds_its_ends(value: float) -> None:
    require_range("p", value, low=0.0, high=1.0)


@pytest.mark.parametrize(
    ("value", "range_text", "ends"),
    [
        (-0.1, "[0, 1]", {}),
        (1.1, "[0, 1]", {}),
        (0.0, "(0, 1]", {"low_open": True}),
        (1.0, "[0, 1)", {"high_open": True}),
        (math.nan, "[0, 1]", {}),
        (math.inf, "[0, 1]", {}),
    ],
)
def test_outside_a_range(value: float, range_text: str, ends: dict[str, bool]) -> None:
    with pytest.raises(ConfigError) as caught:
        require_range("p", value, low=0.0, high=1.0, **ends)
    assert f"is outside {range_text}; set a value inside that range" in str(caught.value)


def test_unbounded_range_takes_everything_but_nan() -> None:
    require_range("x", math.inf)
    require_range("x", -1e300)
    with pytest.raises(ConfigError):
        require_range("x", math.nan)
    with pytest.raises(ConfigError):
        require_range("x", -math.inf, low_open=True, high_open=True)
