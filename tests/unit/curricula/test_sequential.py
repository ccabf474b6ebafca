from __future__ import annotations

import pytest

from grpo_lightning.curricula.sequential import Sequential
from grpo_lightning.errors import ConfigError


def bound() -> Sequential:
    curriculum = Sequential()
    curriculum.bind({"a": 2, "b": 1}, seed=0)
    return curriculum


def test_in_order_and_again() -> None:
    once = [("a", 0), ("a", 1), ("b", 0)]
    assert bound().draw(7) == [*once, *once, once[0]]


def test_the_sizes_of_draws_do_not_matter() -> None:
    curriculum = bound()
    assert curriculum.draw(3) + curriculum.draw(0) + curriculum.draw(5) == bound().draw(8)


def test_state_is_all_that_decides() -> None:
    curriculum = bound()
    curriculum.draw(4)
    other = Sequential()
    other.load_state_dict(curriculum.state_dict())
    other.bind({"a": 2, "b": 1}, seed=0)
    assert curriculum.state_dict() == {"drawn": 4}
    assert other.draw(6) == curriculum.draw(6)


def test_nothing_to_draw() -> None:
    with pytest.raises(ConfigError, match=r"^data: "):
        Sequential().bind({}, seed=0)
