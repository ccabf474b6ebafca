"""Checks of transforms of advantages."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from grpo_lightning.testing.check import Specimen, checks, expect
from grpo_lightning.testing.difference import difference
from grpo_lightning.testing.global_state import unchanged_globals
from grpo_lightning.testing.tables import UNEVEN, advantages_of, reward_table, rollouts_of, shuffled_rows, steps_of
from grpo_lightning.transforms.base import Transform
from grpo_lightning.types import RolloutTable


def check_gives_finite_numbers(specimen: Specimen) -> None:
    """Advantages come back as finite float64 numbers, as many as there were."""
    transform, table = specimen.make(), _table()
    given = _given(transform, table)
    values = transform(given, table, rollouts_of(table))
    good = values.dtype is torch.float64 and values.shape == given.shape
    expect(good, "A transform returns float64 of the shape that it got",
           f"{values.dtype} of shape {tuple(values.shape)} for {tuple(given.shape)}",
           "see level: row transforms get and return [R], step transforms [S]")  # fmt: skip
    expect(bool(values.isfinite().all()), "New advantages are finite", f"{values.tolist()}"[:100],
           "mind a division by a spread that is 0, and groups of one row")  # fmt: skip


def check_leaves_invalid_rows_nothing(specimen: Specimen) -> None:
    """Rows that abstain or have no step keep an advantage of exactly 0."""
    transform, table = specimen.make(), _table()
    rows = _by_row(transform, table)
    loud = [row for row in (~table.valid_R).nonzero().flatten().tolist() if bool((rows[row] != 0).any())]
    expect(not loud, "Rows that are not valid keep an advantage of exactly 0",
           f"row {loud[:1]} has {[rows[r].tolist() for r in loud[:1]]}",
           "multiply by table.valid_R, or write torch.where(table.valid_R, new, 0.0)")  # fmt: skip


def check_keeps_zero(specimen: Specimen) -> None:
    """An advantage of a valid row that is exactly 0 stays so, unless it declares ``keeps_zero = False``."""
    transform: Transform = specimen.make()
    table = _table()
    if not transform.keeps_zero:
        return
    given, rows = _given(transform, table), _by_row(transform, table)
    before = _split(transform, table, given)
    silent = [row for row in table.valid_R.nonzero().flatten().tolist() if not bool((before[row] != 0).any())]
    loud = [row for row in silent if bool((rows[row] != 0).any())]
    expect(not loud, "An advantage of exactly 0 stays 0: such a row costs no forward pass",
           f"{[rows[r].tolist() for r in loud[:1]]}",
           "multiply rather than add, or say keeps_zero = False on the class")  # fmt: skip


def check_goes_with_the_rows(specimen: Specimen) -> None:
    """In another order, groups mixed, the rows get the same new advantages."""
    table = _table()
    if _unsteady(specimen) is not None:
        return
    order = shuffled_rows(table)
    before, after = _by_row(specimen.make(), table), _by_row(specimen.make(), table.select(order))
    found = next(
        (row for place, row in enumerate(order.tolist()) if not torch.allclose(before[row], after[place])), None
    )
    expect(found is None, "New advantages go with their rows, in whatever order these come", f"another one for row {found}",
           "find a row's group by table.group_R: members need not stand side by side")  # fmt: skip


def check_does_not_change_by_being_asked(specimen: Specimen) -> None:
    """Asked twice, and by another built alike, it answers the same."""
    found = _unsteady(specimen)
    expect(found is None, "Equal rollouts give equal advantages", str(found),
           "draw no numbers, and keep no count of calls: groups that are drawn again are transformed again")  # fmt: skip


def check_leaves_what_it_is_given_alone(specimen: Specimen) -> None:
    """It changes nothing in the advantages, the table and the rows that it is given."""
    transform, table = specimen.make(), _table()
    given = (_given(transform, table), table, rollouts_of(table))
    before = copy.deepcopy(given)
    transform(*given)
    found = difference(before, given, "(advantages, table, rollouts)")
    expect(found is None, "A transform changes nothing that it is given", str(found),
           "use operations without an underscore at their end, and return a new tensor")  # fmt: skip


def check_leaves_the_process_alone(specimen: Specimen) -> None:
    """A call changes nothing that the process shares: random states, default dtype, grad mode, ..."""
    transform, table = specimen.make(), _table()
    given, rollouts = _given(transform, table), rollouts_of(table)
    with unchanged_globals("transforming"):
        transform(given, table, rollouts)


def _unsteady(specimen: Specimen) -> str | None:
    """Where answers to the same question differ."""
    transform, table = specimen.make(), _table()
    first = _by_row(transform, table)
    found = difference(first, _by_row(transform, table), "advantages, asked twice: it")
    return found or difference(first, _by_row(specimen.make(), table), "advantages of two built alike: it")


def _table() -> RolloutTable:
    lengths = [1 + row * 3 % 5 for row in range(sum(map(len, UNEVEN)))]
    lengths[12] = 0
    return reward_table(UNEVEN, lengths=lengths)


def _given(transform: Transform, table: RolloutTable) -> Tensor:
    """Advantages of rows or steps, as the transform takes them."""
    advantages_R = advantages_of(table)
    return advantages_R if transform.level == "row" else advantages_R[steps_of(table).row_S]


def _by_row(transform: Transform, table: RolloutTable) -> list[Tensor]:
    values = transform(_given(transform, table).clone(), copy.deepcopy(table), rollouts_of(table))
    return _split(transform, table, values)


def _split(transform: Transform, table: RolloutTable, values: Tensor) -> list[Tensor]:
    """The advantages of each row."""
    return list(values[:, None]) if transform.level == "row" else list(torch.split(values, table.lengths_R.tolist()))


CHECKS = checks(
    check_gives_finite_numbers,
    check_leaves_invalid_rows_nothing,
    check_keeps_zero,
    check_goes_with_the_rows,
    check_does_not_change_by_being_asked,
    check_leaves_what_it_is_given_alone,
    check_leaves_the_process_alone,
)
