"""Sources of prompts with one fault each: every one fails its own check and no other."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import numpy as np
import pytest

from grpo_lightning.prompts.base import PromptSource
from grpo_lightning.testing import prompts
from helpers.failures import assert_fails_only, failures


class Squares(PromptSource):
    """The squares of the first numbers: a sound one."""

    name = "squares"

    def __init__(self) -> None:
        self._rows: list[dict[str, Any]] = []

    def load(self) -> None:
        self._rows = [{"prompt": f"{n} squared is", "answer": str(n * n), "factors": [n, n]} for n in range(4)]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return copy.deepcopy(self._rows[index])

    @property
    def columns(self) -> list[str]:
        return ["prompt", "answer", "factors"]


class Boasts(Squares):
    """Says that it has a row more than it has."""

    name = "boasts"

    def __len__(self) -> int:
        return super().__len__() + 1


class NeverEnds(Squares):
    """Begins again after its last row."""

    name = "never_ends"

    def __getitem__(self, index: int) -> dict[str, Any]:
        return super().__getitem__(index % len(self))


class HidesColumn(Squares):
    """Does not name all its columns."""

    name = "hides_column"

    @property
    def columns(self) -> list[str]:
        return ["prompt", "answer"]


class TakesName(Squares):
    """Has a column under whose name rewards get something else."""

    name = "takes_name"

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {**super().__getitem__(index), "groups": "squares"}

    @property
    def columns(self) -> list[str]:
        return [*super().columns, "groups"]


class SaysNothing(Squares):
    """Has an empty prompt among others."""

    name = "says_nothing"

    def load(self) -> None:
        super().load()
        self._rows[2]["prompt"] = ""


class NewAtEveryLook(Squares):
    """Makes its rows up when they are looked at."""

    name = "new_at_every_look"
    looks = itertools.count()

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {**super().__getitem__(index), "answer": str(next(self.looks))}


class Appends(Squares):
    """Has every row twice when it is loaded twice."""

    name = "appends"

    def load(self) -> None:
        before = self._rows
        super().load()
        self._rows = before + self._rows


class SharesLists(Squares):
    """Gives a new dictionary with its own lists in it."""

    name = "shares_lists"

    def __getitem__(self, index: int) -> dict[str, Any]:
        return dict(self._rows[index])


class Draws(Squares):
    """Draws from the generator that numpy has for everyone."""

    name = "draws"

    def load(self) -> None:
        np.random.random()
        super().load()


BROKEN = [
    (Boasts, "has_rows", "count the rows"),
    (NeverEnds, "ends_where_it_says", "raise IndexError, do not begin again"),
    (HidesColumn, "gives_its_columns", "columns are ['answer', 'prompt']"),
    (TakesName, "uses_no_reserved_name", "groups is what rewards get something else under"),
    (SaysNothing, "gives_prompts", "row 2: its prompt is empty"),
    (NewAtEveryLook, "gives_the_same_row_again", "make all rows up in load"),
    (Appends, "can_be_loaded_again", "set the rows in load"),
    (SharesLists, "gives_rows_away", "return a deep copy"),
    (Draws, "leaves_the_process_alone", "loading changed numpy's random state"),
]


@pytest.mark.parametrize(("component", "check", "teaches"), BROKEN, ids=lambda each: getattr(each, "__name__", None))
def test_fails_only_its_check(component: type, check: str, teaches: str) -> None:
    assert_fails_only(component, check, teaches)


def test_every_check_has_a_component_that_fails_it() -> None:
    assert {check for _, check, _ in BROKEN} == {check.name for check in prompts.CHECKS}


def test_a_good_one_passes() -> None:
    assert failures(Squares) == {}
