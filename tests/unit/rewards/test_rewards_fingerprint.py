from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_lightning.errors import ConfigError
from grpo_lightning.rewards.exact_match import ExactMatch
from grpo_lightning.rewards.fingerprint import arguments_fingerprint, fingerprint, reward_fingerprint
from grpo_lightning.rewards.function import FunctionReward
from grpo_lightning.types import FinishReason, Turn

DIFFERENT: list[Any] = [
    None, True, False, 0, 1, 1.0, -0.0, 0.0, float("nan"), "", "1", b"1", [], [1], [[1]], [1, 2], (1, (2,)), {}, {"a": 1},
    {"a": [1]}, {1: "a"}, {1}, FinishReason.STOP, FinishReason.LENGTH, Path("a"), re.compile("a"), re.compile("a", re.I),
    np.float32(1), np.float64(1), np.zeros(2), np.zeros((2, 1)), torch.zeros(2), torch.zeros(2, dtype=torch.float64),
    Turn([1], "a", FinishReason.STOP), Turn([1], "a", FinishReason.STOP, "b"), len, sorted, partial(sorted, reverse=True),
    ["ab", "c"], ["a", "bc"], 2**80,
]  # fmt: skip


def test_whatever_differs_differs() -> None:
    assert len({fingerprint(each) for each in DIFFERENT}) == len(DIFFERENT)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(VALUES, VALUES)
def test_equal_means_equal_in_content_and_type(one: Any, two: Any) -> None:
    assert (fingerprint(one) == fingerprint(two)) is (repr(one) == repr(two) or _reordered(one, two))


def _reordered(one: Any, two: Any) -> bool:
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(_reordered(one[key], two[key]) for key in one)
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(_reordered, one, two))
    return repr(one) == repr(two)


def first(completions: list[str]) -> list[float]:
    return [1.0] * len(completions)


def second(completions: list[str]) -> list[float]:
    return [1.0] * len(completions)


@dataclass
class Weighted:
    """A function with a state."""

    weight: float

    def __call__(self, completions: list[str]) -> list[float]:
        return [self.weight] * len(completions)


def test_rewards_differ_by_class_settings_version_and_function() -> None:
    class Newer(ExactMatch):
        version = "2"

    rewards = [
        ExactMatch(), ExactMatch(column="solution"), ExactMatch(pattern="(a)"), Newer(), FunctionReward(function=first),
        FunctionReward(function=second), FunctionReward(function=partial(first, completions=["a"])),
        FunctionReward(function=Weighted(1.0)), FunctionReward(function=Weighted(2.0)),
    ]  # fmt: skip
    assert len({reward_fingerprint(each) for each in rewards}) == len(rewards)
    assert reward_fingerprint(ExactMatch()) == reward_fingerprint(ExactMatch())


def test_what_a_setup_loads_is_no_part_of_it() -> None:
    reward: Any = ExactMatch()
    before = reward_fingerprint(reward)
    reward.model = object()
    assert reward_fingerprint(reward) == before


def test_the_source_file_is_part_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    found = []
    for index, factor in enumerate((1, 2)):
        (tmp_path / f"versioned{index}.py").write_text(f"def score(completions):\n    return [{factor}.0]\n")
        module: Any = __import__(f"versioned{index}")
        module.score.__module__ = "versioned"
        found.append(reward_fingerprint(FunctionReward(function=module.score)))
    assert found[0] != found[1]


def test_settings_that_cannot_be_told_apart() -> None:
    reward: Any = ExactMatch()
    reward.stream = (each for each in "a")
    with pytest.raises(ConfigError, match="cache: 'exact_match' has settings that cannot be part of a cache's key"):
        reward_fingerprint(reward)


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ({"groups": [4, 4, 7]}, {"groups": [0, 0, 1]}, True),
        ({"groups": [4, 4, 7]}, {"groups": [0, 1, 1]}, False),
        ({"completions": ["a"], "members": [0]}, {"members": [0], "completions": ["a"]}, True),
        ({"completions": ["a"]}, {"prompts": ["a"]}, False),
        ({"completions": ["a", "b"]}, {"completions": ["ab"]}, False),
    ],
)
def test_arguments(one: dict[str, Any], two: dict[str, Any], same: bool) -> None:
    key: Callable[[dict[str, Any]], bytes] = partial(arguments_fingerprint, b"reward")
    assert (key(one) == key(two)) is same
    assert arguments_fingerprint(b"other", one) != key(one)
