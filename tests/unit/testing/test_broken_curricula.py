"""Curricula with one fault each: every one fails its own check and no other."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from typing import Any

import pytest

from grpo_lightning.curricula.base import Curriculum
from grpo_lightning.testing import curricula
from helpers.failures import assert_fails_only, failures


class InTurn(Curriculum):
    """Rows of all data sets in turn: a sound one."""

    name = "in_turn"

    def __init__(self) -> None:
        self.drawn = 0

    def rows(self) -> list[tuple[str, int]]:
        return [(name, index) for name, size in self.sizes.items() for index in range(size)]

    def draw(self, n: int) -> list[tuple[str, int]]:
        rows = self.rows()
        drawn = [rows[place % len(rows)] for place in range(self.drawn, self.drawn + n)]
        self.drawn += n
        return drawn

    def state_dict(self) -> dict[str, Any]:
        return {"drawn": self.drawn}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.drawn = state["drawn"]


class RunsOut(InTurn):
    """Ends where a pass does."""

    name = "runs_out"

    def draw(self, n: int) -> list[tuple[str, int]]:
        return super().draw(n)[: len(self.rows())]


class FromOne(InTurn):
    """Counts rows from 1."""

    name = "from_one"

    def rows(self) -> list[tuple[str, int]]:
        return [(name, index + 1) for name, index in super().rows()]


class OwnWay(InTurn):
    """Begins where how many of it were built says."""

    name = "own_way"
    built = itertools.count()

    def __init__(self) -> None:
        super().__init__()
        self._offset = next(self.built)

    def draw(self, n: int) -> list[tuple[str, int]]:
        rows, drawn = self.rows(), super().draw(n)
        return [rows[(rows.index(each) + self._offset) % len(rows)] for each in drawn]


class Forgets(InTurn):
    """Begins anew after a resume."""

    name = "forgets"

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


class LendsItsState(InTurn):
    """Gives its own dictionary away."""

    name = "lends_its_state"

    def __init__(self) -> None:
        super().__init__()
        self.state: dict[str, int] = {"drawn": 0}

    def draw(self, n: int) -> list[tuple[str, int]]:
        drawn = super().draw(n)
        self.state["drawn"] = self.drawn
        return drawn

    def state_dict(self) -> dict[str, Any]:
        return self.state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.state = dict(state)


class Takes(InTurn):
    """Takes the sizes out of the dictionary that it is given."""

    name = "takes"

    def bind(self, sizes: Mapping[str, int], seed: int) -> None:
        super().bind(sizes, seed)
        if isinstance(sizes, dict):
            sizes.clear()


class DrawsForAll(InTurn):
    """Draws from the random numbers that all share."""

    name = "draws_for_all"

    def draw(self, n: int) -> list[tuple[str, int]]:
        random.random()
        return super().draw(n)


BROKEN = [
    (RunsOut, "draws_as_many_as_asked", "begin again where the rows end"),
    (FromOne, "draws_rows_there_are", "take sizes from self.sizes"),
    (OwnWay, "draws_alike_for_equal_seeds", "draw from a function of the seed that bind gives"),
    (Forgets, "goes_on_from_its_state", "give in state_dict whatever draw and observe change"),
    (LendsItsState, "gives_a_state_that_stays", "return copies"),
    (Takes, "leaves_what_it_is_given_alone", "copy before you write"),
    (DrawsForAll, "leaves_the_process_alone", "drawing changed the random state of Python's random"),
]


@pytest.mark.parametrize(("component", "check", "teaches"), BROKEN, ids=lambda each: getattr(each, "__name__", None))
def test_fails_only_its_check(component: type, check: str, teaches: str) -> None:
    assert_fails_only(component, check, teaches)


def test_every_check_has_a_component_that_fails_it() -> None:
    assert {check for _, check, _ in BROKEN} == {check.name for check in curricula.CHECKS}


def test_a_good_one_passes() -> None:
    assert failures(InTurn) == {}
