"""Selectors with one fault each: every one fails its own check and no other."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from grpo_lightning.selectors.base import Selection, Selector
from grpo_lightning.testing import selectors
from grpo_lightning.types import RolloutTable
from helpers.failures import assert_fails_only, failures

NONE = torch.zeros(0, dtype=torch.int64)


class Everything(Selector):
    """Every valid row: a sound one."""

    name = "everything"

    def __call__(self, advantages_R: Tensor, table: RolloutTable, attempt: int) -> Selection:
        return Selection(table.valid_R.clone(), NONE)


class Numbers(Everything):
    """Says 1 and 0 instead of true and false."""

    name = "numbers"

    def __call__(self, advantages_R: Tensor, table: RolloutTable, attempt: int) -> Selection:
        return Selection(table.valid_R.to(torch.int64), NONE)


class KeepsAbstainers(Everything):
    """Trains rows that abstain."""

    name = "keeps_abstainers"

    def __call__(self, advantages_R: Tensor, table: RolloutTable, attempt: int) -> Selection:
        return Selection(torch.ones_like(table.valid_R), NONE)


class RedrawsStrangers(Everything):
    """Asks for a group that there is not."""

    name = "redraws_strangers"

    def __call__(self, advantages_R: Tensor, table: RolloutTable, attempt: int) -> Selection:
        return Selection(table.valid_R.clone(), torch.tensor([int(table.group_R.max()) + 1]) if attempt == 0 else NONE)


class NeverSatisfied(Everything):
    """Asks for silent groups as long as there are some."""

    name = "never_satisfied"

    def __call__(self, advantages_R: Tensor, table: RolloutTable, attempt: int) -> Selection:
        return Selection(table.valid_R.clone(), torch.unique(table.group_R[advantages_R == 0]))


class Modest(Everything):
    """Says that it leaves one row of a group, and leaves all."""

    name = "modest"

    def largest_group(self, group_size: int) -> int:
        return 1


class LeadersOnly(Everything):
    """Keeps the row of each group that happens to stand first."""

    name = "leaders_only"

    def __call__(self, advantages_R: Tensor, table: RolloutTable, attempt: int) -> Selection:
        groups = table.group_R.tolist()
        first_R = torch.tensor([groups.index(group) == row for row, group in enumerate(groups)])
        return Selection(table.valid_R & first_R, NONE)


class EverySecond(Everything):
    """Decides by how many of it were built."""

    name = "every_second"
    built = itertools.count()

    def __init__(self) -> None:
        self._odd = next(self.built) % 2 == 1

    def __call__(self, advantages_R: Tensor, table: RolloutTable, attempt: int) -> Selection:
        return Selection(table.valid_R & (table.member_R % 2 == int(self._odd)), NONE)


class Tires(Everything):
    """Keeps nothing from the third call on, and forgets the calls."""

    name = "tires"

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, advantages_R: Tensor, table: RolloutTable, attempt: int) -> Selection:
        self.calls += 1
        return Selection(table.valid_R & (self.calls < 3), NONE)


class Erases(Everything):
    """Sets advantages to 0 when it is through."""

    name = "erases"

    def __call__(self, advantages_R: Tensor, table: RolloutTable, attempt: int) -> Selection:
        advantages_R.zero_()
        return Selection(table.valid_R.clone(), NONE)


class ChangesPrecision(Everything):
    """Wants float64 everywhere."""

    name = "changes_precision"

    def __call__(self, advantages_R: Tensor, table: RolloutTable, attempt: int) -> Selection:
        torch.set_default_dtype(torch.float64)
        return Selection(table.valid_R.clone(), NONE)


BROKEN = [
    (Numbers, "keeps_rows", "keep_R is a bool for each"),
    (KeepsAbstainers, "keeps_what_may_train", "write ... & table.valid_R"),
    (RedrawsStrangers, "redraws_groups_there_are", "take them from table.group_R"),
    (NeverSatisfied, "stops_asking", "a prompt may never be solved"),
    (Modest, "tells_its_largest_group", "return the rows over which advantages are computed"),
    (LeadersOnly, "goes_with_the_rows", "break ties by table.member_R"),
    (EverySecond, "is_decided_alike", "draw no numbers"),
    (Tires, "goes_on_from_its_state", "give in state_dict whatever a call changes"),
    (Erases, "leaves_what_it_is_given_alone", "clone before you write into a tensor"),
    (ChangesPrecision, "leaves_the_process_alone", "selecting changed the default dtype"),
]


@pytest.mark.parametrize(("component", "check", "teaches"), BROKEN, ids=lambda each: getattr(each, "__name__", None))
def test_fails_only_its_check(component: type, check: str, teaches: str) -> None:
    assert_fails_only(component, check, teaches)


def test_every_check_has_a_component_that_fails_it() -> None:
    assert {check for _, check, _ in BROKEN} == {check.name for check in selectors.CHECKS}


def test_a_good_one_passes() -> None:
    assert failures(Everything) == {}
