from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_lightning.curricula.mixture import Mixture
from grpo_lightning.errors import ConfigError

SIZES = {"a": 5, "b": 7, "c": 3}


def bound(seed: int = 0, **weights: float) -> Mixture:
    curriculum = Mixture(weights=weights or {"a": 3.0, "b": 1.0, "c": 0.0})
    curriculum.bind(SIZES, seed)
    return curriculum


def test_proportions() -> None:
    n = 4000
    names = [name for name, _ in bound().draw(n)]
    # 3 : 1 : 0; four standard deviations of the count of a.
    assert abs(names.count("a") - 0.75 * n) < 4 * math.sqrt(n * 0.75 * 0.25)
    assert names.count("c") == 0


def test_each_data_set_is_shuffled_by_itself() -> None:
    drawn = bound().draw(200)
    for name, size in (("a", 5), ("b", 7)):
        rows = [index for dataset, index in drawn if dataset == name]
        passes = [rows[start : start + size] for start in range(0, len(rows) - size + 1, size)]
        assert all(sorted(each) == list(range(size)) for each in passes)
        assert len({tuple(each) for each in passes}) > 1


def test_seeds_differ_and_repeat() -> None:
    assert bound(1).draw(30) == bound(1).draw(30)
    assert bound(1).draw(30) != bound(2).draw(30)


@given(st.lists(st.integers(0, 30), max_size=6))
@settings(max_examples=40, deadline=None)
def test_the_sizes_of_draws_do_not_matter(parts: list[int]) -> None:
    curriculum = bound()
    assert [row for part in parts for row in curriculum.draw(part)] == bound().draw(sum(parts))


@pytest.mark.parametrize("drawn", [0, 5, 31])
def test_state_is_all_that_decides(drawn: int) -> None:
    curriculum = bound()
    counts = [name for name, _ in curriculum.draw(drawn)]
    state = curriculum.state_dict()
    assert state == {"drawn": drawn, "drawn_from": {name: counts.count(name) for name in sorted(set(counts))}}
    other = bound()
    other.draw(50)
    other.load_state_dict(state)
    assert other.draw(20) == curriculum.draw(20)


def test_a_state_is_a_copy() -> None:
    curriculum = bound()
    state = curriculum.state_dict()
    curriculum.draw(5)
    assert state == {"drawn": 0, "drawn_from": {}}


@pytest.mark.parametrize("weights", [{}, {"a": 0.0}, {"a": -1.0, "b": 2.0}, {"a": math.nan}, {"a": math.inf}])
def test_weights_are_checked_at_once(weights: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=r"^weights"):
        Mixture(weights=weights)


def test_names_must_be_those_of_the_data_sets() -> None:
    with pytest.raises(ConfigError, match="'easyy' is no data set; did you mean 'easy'"):
        Mixture(weights={"easyy": 1.0}).bind({"easy": 3}, seed=0)
    with pytest.raises(ConfigError, match="'hard' is a data set without a weight"):
        Mixture(weights={"easy": 1.0}).bind({"easy": 3, "hard": 2}, seed=0)
