from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_lightning.curricula.shuffled import Shuffled
from grpo_lightning.errors import ConfigError

SIZES = {"a": 5, "b": 7}
ROWS = [(name, index) for name, size in SIZES.items() for index in range(size)]


def bound(seed: int = 0) -> Shuffled:
    curriculum = Shuffled()
    curriculum.bind(SIZES, seed)
    return curriculum


def test_every_pass_is_a_new_permutation_of_all_rows() -> None:
    curriculum = bound()
    passes = [curriculum.draw(12) for _ in range(4)]
    assert all(sorted(each) == ROWS for each in passes)
    assert len({tuple(each) for each in passes}) == 4


def test_seeds_differ_and_repeat() -> None:
    assert bound(1).draw(12) == bound(1).draw(12)
    assert bound(1).draw(12) != bound(2).draw(12)


@given(st.lists(st.integers(0, 30), max_size=6))
@settings(max_examples=40, deadline=None)
def test_the_sizes_of_draws_do_not_matter(parts: list[int]) -> None:
    curriculum = bound()
    assert [row for part in parts for row in curriculum.draw(part)] == bound().draw(sum(parts))


@pytest.mark.parametrize("drawn", [0, 5, 12, 31])
def test_state_is_all_that_decides(drawn: int) -> None:
    curriculum = bound()
    curriculum.draw(drawn)
    other = bound()
    other.draw(50)
    other.load_state_dict(curriculum.state_dict())
    assert curriculum.state_dict() == {"drawn": drawn}
    assert other.draw(20) == curriculum.draw(20)


def test_nothing_to_draw() -> None:
    with pytest.raises(ConfigError, match=r"^data: "):
        Shuffled().bind({"a": 0}, seed=0)
