"""Checks of advantage estimators."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

import torch

from grpo_lightning.advantages.base import Advantage, StepAdvantage
from grpo_lightning.testing.check import Nonconformity, Specimen, checks, expect
from grpo_lightning.testing.difference import difference
from grpo_lightning.testing.estimating import adapted_rewards, apart, ask, by_row, rollout_for
from grpo_lightning.testing.global_state import unchanged_globals
from grpo_lightning.testing.tables import reward_table, shuffled_rows, steps_of

EQUAL = (0.1, 0.3, 0.7, 1.1, 1e6 + 0.1)
UP_TO_EPS = 1e-3
"""What a promise under shift and scale is held to, relative to the largest advantage: estimators divide by std + eps."""
_FIX_SILENT = (
    "leave degenerate groups to Advantage.__call__, or ask self.silent(groups, table) and Groups.unanimous: rounding leaves "
    "noise in equal rewards, which a standard deviation magnifies. An estimator without group statistics says compares = False"
)


def check_asks_for_what_it_reads(specimen: Specimen) -> None:
    """It declares what it reads beyond rewards: functionals, states, greedy rewards, columns, components."""
    advantage: Advantage = specimen.make()
    table = rollout_for(advantage)
    bare = replace(
        table,
        components=table.components if advantage.reads_components else {},
        weights=table.weights if advantage.reads_components else {},
        greedy_rewards_R=table.greedy_rewards_R if advantage.greedy else None,
    )
    steps = steps_of(table)
    functionals = {
        name: steps.functionals[name] for name in {"log_prob", *advantage.functionals} & {*steps.functionals}
    }
    steps = replace(steps, functionals=functionals, state_S=steps.state_S if advantage.needs_states else None)
    try:
        advantage(bare, steps if isinstance(advantage, StepAdvantage) else None)
    except Exception as error:  # whatever comes of what is not there
        mend = "declare it on the class: functionals, needs_states, greedy, columns or reads_components"
        raise Nonconformity(
            f"An estimator reads only what it declares. Found: {type(error).__name__}: {error}. To mend it: {mend}."
        ) from error


def check_gives_finite_numbers(specimen: Specimen) -> None:
    """One finite float64 number a row (a step, for a StepAdvantage), for groups of any size and rows that abstain."""
    advantage: Advantage = specimen.make()
    table = rollout_for(advantage)
    values, steps = ask(advantage, table), steps_of(table)
    wanted = (steps.row_S.shape[0],) if isinstance(advantage, StepAdvantage) else (len(table),)
    found = f"{values.dtype} of shape {tuple(values.shape)} for shape {wanted}"
    expect(values.dtype is torch.float64 and tuple(values.shape) == wanted, "Advantages are float64, one a row or a step",
           found, "compute in float64, and index what is one a group by groups.index_R")  # fmt: skip
    odd = (~values.isfinite()).nonzero().flatten().tolist()
    expect(not odd, "Advantages are finite", f"{values[odd[:1]].tolist()} at {odd[:3]}",
           "mind groups of one row, and of equal rewards: a standard deviation is 0 there")  # fmt: skip


def check_gives_invalid_rows_nothing(specimen: Specimen) -> None:
    """Rows that abstain or have no step get exactly 0, and are in no statistic of the others."""
    advantage: Advantage = specimen.make()
    table = rollout_for(advantage)
    rows = by_row(advantage, table)
    loud = [row for row in (~table.valid_R).nonzero().flatten().tolist() if bool((rows[row] != 0).any())]
    mend = "mask by table.valid_R, and let Advantage.__call__ do it: define estimate (or estimate_steps), not __call__"
    expect(
        not loud,
        "Rows that are not valid get exactly 0",
        f"row {loud[:1]} has {[rows[r].tolist() for r in loud[:1]]}",
        mend,
    )
    kept = table.valid_R.nonzero().flatten()
    without = by_row(specimen.make(), table.select(kept))
    found = apart([rows[row] for row in kept.tolist()], without)
    expect(found is None, "Rows that are not valid are in no statistic", f"without them {found}", mend)


def check_is_silent_where_rewards_are_equal(specimen: Specimen) -> None:
    """Where it compares, a group of equal rewards gets exactly 0, also if they are not exact in binary (0.1, 0.3, 0.7)."""
    advantage: Advantage = specimen.make()
    if not advantage.compares:
        return
    groups: list[Sequence[float]] = [[value] * size for value in EQUAL for size in (2, 3, 7)]
    groups += [[0.1 + 0.2, 0.3, 0.3], [1.0, 0.0, 1.0, 0.0]]
    adapted = adapted_rewards(advantage, groups)
    table = reward_table(adapted, lengths=[3] * sum(map(len, groups)), columns=advantage.columns)
    rows = by_row(advantage, table)
    for group, rewards in enumerate(adapted[:-1]):
        values = torch.cat([rows[row] for row in (table.group_R == group).nonzero().flatten().tolist()])
        expect(not bool((values != 0).any()), "A group of equal rewards gets exactly 0",
               f"{values.tolist()[:3]} for rewards {list(rewards)[:3]}", _FIX_SILENT)  # fmt: skip


def check_is_silent_for_a_group_of_one(specimen: Specimen) -> None:
    """Where it compares, a group of one valid row gets exactly 0."""
    advantage: Advantage = specimen.make()
    if not advantage.compares:
        return
    table = reward_table(adapted_rewards(advantage, [[1.0], [0.0, 1.0, 0.5], [1.0, None]]), columns=advantage.columns)
    rows = by_row(advantage, table)
    found = [values for values in (rows[0], rows[4]) if bool((values != 0).any())]
    expect(
        not found,
        "A row that has no other to compare with gets exactly 0",
        f"{[each.tolist() for each in found]}",
        _FIX_SILENT,
    )


def check_keeps_groups_apart(specimen: Specimen) -> None:
    """A group's advantages depend on no other group, unless it declares ``batch_statistics``."""
    advantage: Advantage = specimen.make()
    if advantage.batch_statistics:
        return
    table = rollout_for(advantage)
    together = by_row(advantage, table)
    for group in (0, 3, 4):
        rows = (table.group_R == group).nonzero().flatten()
        found = apart([together[row] for row in rows.tolist()], by_row(specimen.make(), table.select(rows)))
        mend = "use Groups for statistics inside groups; where the rollout is meant, say batch_statistics = True"
        expect(found is None, "A group's advantages depend on no other group", f"alone, {found} in group {group}", mend)


def check_goes_with_the_rows(specimen: Specimen) -> None:
    """In another order, groups mixed, the rows get the same advantages."""
    advantage: Advantage = specimen.make()
    table = rollout_for(advantage)
    order = shuffled_rows(table)
    before, after = by_row(advantage, table), by_row(specimen.make(), table.select(order))
    found = apart([before[row] for row in order.tolist()], after)
    mend = "find a row's group by table.group_R (groups.index_R): members need not stand side by side"
    expect(found is None, "Advantages go with their rows, in whatever order these come", str(found), mend)


def check_stays_finite_on_extremes(specimen: Specimen) -> None:
    """Rewards from 1e-6 to 1e6, alone and together, give finite advantages."""
    advantage: Advantage = specimen.make()
    groups = [(1e6, 1e-6, 0.0, 1e6), (1e-6, 2e-6, 0.0), (1e6, 1e6 - 1e-3, 1e6), (-1e6, 1e6, -1e-6), (0.0, 1e-12)]
    table = reward_table(adapted_rewards(advantage, groups), columns=advantage.columns)
    values = ask(advantage, table)
    expect(bool(values.isfinite().all()), "Rewards of any size give finite advantages", f"{values.tolist()}"[:100],
           "mind a division by a tiny spread, and an overflow of exp")  # fmt: skip


def check_does_not_change_by_being_asked(specimen: Specimen) -> None:
    """Asked twice it answers the same, and its state stays: only ``observe`` changes it."""
    advantage: Advantage = specimen.make()
    table = rollout_for(advantage)
    before = copy.deepcopy(advantage.state_dict())
    first, second = by_row(advantage, table), by_row(advantage, table)
    found = difference(first, second, "advantages") or difference(before, advantage.state_dict(), "state")
    mend = "change the state in observe(table), called once a rollout; a call is repeated where groups are drawn again"
    expect(found is None, "A call changes nothing, and equal tables give equal advantages", str(found), mend)


def check_leaves_its_table_alone(specimen: Specimen) -> None:
    """A call and ``observe`` change nothing in the table and the steps."""
    advantage: Advantage = specimen.make()
    table = rollout_for(advantage)
    steps = steps_of(table)
    before = copy.deepcopy((table, steps))
    ask(advantage, table, steps)
    advantage.observe(table)
    found = difference(before, (table, steps), "(table, steps)")
    mend = "use operations without an underscore at their end: transforms, selectors and metrics get the same table"
    expect(found is None, "An estimator changes nothing that it is given", str(found), mend)


def check_goes_on_from_its_state(specimen: Specimen) -> None:
    """Resumed from its state in the middle of a run it goes on as if it had not stopped."""
    advantage: Advantage = specimen.make()
    table = rollout_for(advantage)
    advantage.observe(table)
    state = copy.deepcopy(advantage.state_dict())
    resumed: Advantage = specimen.make()
    resumed.load_state_dict(copy.deepcopy(state))
    for each in (advantage, resumed):
        each.observe(table.select(torch.arange(5)))
    found = difference(by_row(advantage, table), by_row(resumed, table), "advantages")
    mend = "give in state_dict whatever observe changes, and take it all back in load_state_dict"
    expect(found is None, "A resumed estimator goes on as the uninterrupted one", str(found), mend)


def check_gives_a_state_that_stays(specimen: Specimen) -> None:
    """What ``state_dict`` returned does not change when the estimator goes on."""
    advantage: Advantage = specimen.make()
    table = rollout_for(advantage)
    advantage.observe(table)
    state = advantage.state_dict()
    before = copy.deepcopy(state)
    advantage.observe(table)
    found = difference(before, state, "state")
    mend = "return copies, such as dict(self.baselines) or tensor.clone(): a checkpoint may hold the state for a while"
    expect(found is None, "A state that was given out stays as it was", str(found), mend)


def check_keeps_its_promise_under_shift(specimen: Specimen) -> None:
    """Adding a constant to all rewards does what ``under_shift`` says."""
    advantage: Advantage = specimen.make()
    if advantage.under_shift is None:
        return
    for constant in (3.0, 0.25):
        found = _moved(specimen, 1.0, constant, 1.0)
        expect(found is None, f"Under a shift of all rewards by {constant:g} the advantages are {advantage.under_shift}",
               str(found), "measure rewards from their group's, or declare under_shift = None")  # fmt: skip


def check_keeps_its_promise_under_scale(specimen: Specimen) -> None:
    """Multiplying all rewards by a positive constant does what ``under_scale`` says."""
    advantage: Advantage = specimen.make()
    if advantage.under_scale is None:
        return
    for factor in (2.5, 0.5):
        wanted = factor if advantage.under_scale == "equivariant" else 1.0
        found = _moved(specimen, factor, 0.0, wanted)
        expect(found is None, f"With all rewards multiplied by {factor:g} the advantages are {advantage.under_scale}",
               str(found), "correct the scale, or declare under_scale as it is (None promises nothing)")  # fmt: skip


def check_leaves_the_process_alone(specimen: Specimen) -> None:
    """A call and ``observe`` change nothing that the process shares: random states, default dtype, grad mode, ..."""
    advantage: Advantage = specimen.make()
    table = rollout_for(advantage)
    with unchanged_globals("estimating"):
        ask(advantage, table)
        advantage.observe(table)


def _moved(specimen: Specimen, factor: float, constant: float, wanted: float) -> str | None:
    """Where the advantages of moved rewards are not ``wanted`` times what they were."""
    advantage, moved = specimen.make(), specimen.make()
    before = by_row(advantage, rollout_for(advantage))
    after = by_row(moved, rollout_for(moved, factor, constant))
    return apart([values * wanted for values in before], after, UP_TO_EPS)


CHECKS = checks(
    check_asks_for_what_it_reads,
    check_gives_finite_numbers,
    check_gives_invalid_rows_nothing,
    check_is_silent_where_rewards_are_equal,
    check_is_silent_for_a_group_of_one,
    check_keeps_groups_apart,
    check_goes_with_the_rows,
    check_stays_finite_on_extremes,
    check_does_not_change_by_being_asked,
    check_leaves_its_table_alone,
    check_goes_on_from_its_state,
    check_gives_a_state_that_stays,
    check_keeps_its_promise_under_shift,
    check_keeps_its_promise_under_scale,
    check_leaves_the_process_alone,
)
