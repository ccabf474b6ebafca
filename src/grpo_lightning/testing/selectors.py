"""Checks of selectors of groups."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from grpo_lightning.errors import ConfigError
from grpo_lightning.selectors.base import Selection, Selector
from grpo_lightning.testing.check import Specimen, checks, expect
from grpo_lightning.testing.difference import difference
from grpo_lightning.testing.global_state import unchanged_globals
from grpo_lightning.testing.tables import UNEVEN, advantages_of, reward_table, shuffled_rows
from grpo_lightning.types import RolloutTable

PATIENCE = 1000
"""Rounds after which a selector that still asks is taken to ask for ever."""


def check_keeps_rows(specimen: Specimen) -> None:
    """It says of every row whether it trains, in bool."""
    table = _table()
    for keep, whose in ((_ask(specimen.make(), table).keep_R, "keep_R"), (specimen.make().subset(table), "subset")):
        good = isinstance(keep, Tensor) and keep.dtype is torch.bool and tuple(keep.shape) == (len(table),)
        found = f"{keep.dtype} of shape {tuple(keep.shape)}" if isinstance(keep, Tensor) else repr(keep)
        expect(
            good, f"{whose} is a bool for each of the {len(table)} rows", found, "index group values by the row's group"
        )


def check_keeps_what_may_train(specimen: Specimen) -> None:
    """It keeps valid rows only, of those over which advantages are computed."""
    table, selector = _table(), specimen.make()
    subset_R, keep_R = selector.subset(table), _ask(selector, table).keep_R
    for chosen_R, whose in ((subset_R, "subset"), (keep_R, "keep_R")):
        odd = (chosen_R & ~table.valid_R).nonzero().flatten().tolist()
        expect(
            not odd,
            "Rows that abstain or have no step never train",
            f"{whose} has rows {odd}",
            "write ... & table.valid_R",
        )
    odd = (keep_R & ~subset_R).nonzero().flatten().tolist()
    expect(
        not odd,
        "Rows outside subset have no advantage and do not train",
        f"keep_R has rows {odd}",
        "write ... & self.subset(table)",
    )


def check_redraws_groups_there_are(specimen: Specimen) -> None:
    """What it asks to be drawn again are ordinals of groups of the table, each once, in int64."""
    table = _table()
    for attempt in (0, 1, PATIENCE):
        selection = _ask(specimen.make(), table, attempt)
        redraw = selection.redraw
        good = redraw.dtype is torch.int64 and redraw.ndim == 1 and len(set(redraw.tolist())) == redraw.shape[0]
        strangers = set(redraw.tolist()) - set(table.group_R.tolist())
        expect(good and not strangers, "redraw holds ordinals of groups, each once", f"{redraw!r}",
               "take them from table.group_R: torch.unique(table.group_R[rows])")  # fmt: skip
        expect(
            selection.prompts in ("same", "fresh"),
            "prompts is same or fresh",
            repr(selection.prompts),
            "set one of them",
        )


def check_stops_asking(specimen: Specimen) -> None:
    """It stops asking for groups at some round, whatever comes."""
    table, selector = _table(), specimen.make()
    silent_R = torch.zeros(len(table), dtype=torch.float64)
    for attempt in range(PATIENCE + 1):
        if not selector(silent_R.clone(), table, attempt).redraw.numel():
            return
    expect(False, "A selector stops drawing again", f"it still asks after {PATIENCE} rounds without a signal",
           "return an empty redraw once attempt has reached a limit; a prompt may never be solved")  # fmt: skip


def check_tells_its_largest_group(specimen: Specimen) -> None:
    """``largest_group`` is what ``subset`` leaves of a group at most; a group size without a meaning is a ConfigError."""
    selector: Selector = specimen.make()
    for size in (2, 4, 8):
        try:
            most = selector.largest_group(size)
        except ConfigError:
            continue
        table = reward_table([[float(row) for row in range(size)], [1.0] * size])
        left = int(selector.subset(table).view(2, size).sum(1).max())
        expect(left <= most <= size, f"largest_group({size}) is at most {size}, and what subset leaves",
               f"{most}, and {left} are left",
               "return the rows over which advantages are computed")  # fmt: skip


def check_goes_with_the_rows(specimen: Specimen) -> None:
    """In another order, groups mixed, it keeps the same rows and draws the same groups again."""
    table = _table()
    if _unlike(specimen) is not None:
        return
    order = shuffled_rows(table)
    before = _ask(specimen.make(), table)
    after = specimen.make()(advantages_of(table)[order], table.select(order), 0)
    found = difference(before.keep_R[order].tolist(), after.keep_R.tolist(), "keep_R")
    found = found or difference(sorted(before.redraw.tolist()), sorted(after.redraw.tolist()), "redraw")
    expect(found is None, "A selection goes with the rows, in whatever order these come", str(found),
           "find a row's group by table.group_R; break ties by table.member_R")  # fmt: skip


def check_is_decided_alike(specimen: Specimen) -> None:
    """Two built alike decide alike: every rank decides for itself, and all must agree."""
    found = _unlike(specimen)
    expect(found is None, "Equal rollouts are decided on equally", str(found), "draw no numbers, and look at no clock")


def check_goes_on_from_its_state(specimen: Specimen) -> None:
    """Resumed from its state in the middle of a run it goes on as if it had not stopped."""
    if _unlike(specimen) is not None:
        return
    selector, table = specimen.make(), _table()
    for rows in (len(table), 8):
        _ask(selector, table.select(torch.arange(rows)))
    resumed = specimen.make()
    resumed.load_state_dict(copy.deepcopy(selector.state_dict()))
    found = difference(
        [_ask(selector, table) for _ in range(3)], [_ask(resumed, table) for _ in range(3)], "selections"
    )
    expect(found is None, "A resumed selector goes on as the uninterrupted one", str(found),
           "give in state_dict whatever a call changes, and take it all back in load_state_dict")  # fmt: skip


def check_leaves_what_it_is_given_alone(specimen: Specimen) -> None:
    """It changes nothing in the advantages and the table, and hands out no tensor of theirs."""
    selector, table = specimen.make(), _table()
    given = (advantages_of(table), table)
    before = copy.deepcopy(given)
    selector.subset(table)
    selector(*given, 0)
    found = difference(before, given, "(advantages_R, table)")
    expect(
        found is None, "A selector changes nothing that it is given", str(found), "clone before you write into a tensor"
    )


def check_leaves_the_process_alone(specimen: Specimen) -> None:
    """A call changes nothing that the process shares: random states, default dtype, grad mode, ..."""
    selector, table = specimen.make(), _table()
    with unchanged_globals("selecting"):
        selector.subset(table)
        _ask(selector, table)


def _unlike(specimen: Specimen) -> str | None:
    """Where the decisions of two that are built alike differ."""
    first, second = _ask(specimen.make(), _table()), _ask(specimen.make(), _table())
    return difference(first, second, "selections of two built alike: it")


def _table() -> RolloutTable:
    lengths = [1 + row * 3 % 5 for row in range(sum(map(len, UNEVEN)))]
    lengths[12] = 0
    return reward_table(UNEVEN, lengths=lengths)


def _ask(selector: Selector, table: RolloutTable, attempt: int = 0) -> Selection:
    return selector(advantages_of(table), copy.deepcopy(table), attempt)


CHECKS = checks(
    check_keeps_rows,
    check_keeps_what_may_train,
    check_redraws_groups_there_are,
    check_stops_asking,
    check_tells_its_largest_group,
    check_goes_with_the_rows,
    check_is_decided_alike,
    check_goes_on_from_its_state,
    check_leaves_what_it_is_given_alone,
    check_leaves_the_process_alone,
)
