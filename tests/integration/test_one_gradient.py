"""One gradient: however the rows of an update are laid out, ordered and split, the optimizer sees the same."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import grpo_lightning
from grpo_lightning.functional.groups import Groups
from grpo_lightning.kl.base import KLTerm
from grpo_lightning.losses.base import LossInputs, LossTerms, PolicyLoss
from grpo_lightning.objective import Objective
from grpo_lightning.policies.causal_lm import CausalLM
from grpo_lightning.rollout.buffer import Buffer, BufferSettings, fill
from grpo_lightning.rollout.scoring import score
from grpo_lightning.rollout.statistics import UpdateStatistics
from helpers.hand_loss import HandLoss, HandRow, example_rows, hand_loss, old_log_probs, permuted, to_collected
from helpers.tiny_policy import gradients, move, relative, tiny_policy

AGGREGATIONS = [
    "token_sum",
    "token_mean",
    "sequence_mean_token_sum",
    "sequence_mean_token_mean",
    "constant_length",
    "prompt_mean",
]
BUDGETS = {1: 10_000, 2: 60, 4: 30, 9: 1}
"""Tokens of a micro-batch that give so many micro-batches for the rows of the example."""


class GroupSpread(PolicyLoss):
    """A term a group that mixes its rows: ``(sum_i A_i m_i) (sum_i m_i)`` with m the mean log-ratio of a row."""

    name = "test_group_spread"
    scope = "group"

    def __call__(self, inputs: LossInputs) -> LossTerms:
        mean_R = inputs.mean_rows(inputs.log_probs_S - inputs.old_log_probs_S)
        groups = Groups.of(inputs.group_R)
        return LossTerms(groups.sum(inputs.row_advantages() * mean_R) * groups.sum(mean_R))


class RowSurrogate(PolicyLoss):
    """A term a row: ``-A_i exp(m_i)`` with m the mean log-ratio of the row."""

    name = "test_row_surrogate"
    scope = "sequence"

    def __call__(self, inputs: LossInputs) -> LossTerms:
        mean_R = inputs.mean_rows(inputs.log_probs_S - inputs.old_log_probs_S)
        return LossTerms(-inputs.row_advantages() * mean_R.exp())


@pytest.fixture(scope="module")
def policy() -> CausalLM:
    made = tiny_policy()
    made.freeze_reference()
    move(made.causal_lm, seed=3)
    return made


@pytest.fixture(scope="module")
def rows(policy: CausalLM) -> list[HandRow]:
    return example_rows(policy.causal_lm)


@pytest.fixture(scope="module")
def by_hand(policy: CausalLM, rows: list[HandRow]) -> Any:
    """Gradients by hand, computed once for each loss and set of groups."""
    kept: dict[Any, dict[str, Tensor]] = {}

    def wanted(loss: HandLoss, groups: frozenset[int] | None = None, on_policy: bool = False) -> dict[str, Tensor]:
        key = (loss, groups, on_policy)
        if key not in kept:
            chosen = [row for row in rows if groups is None or row.group in groups]
            hand_loss(policy.causal_lm, chosen, loss, reference=policy._reference[0], on_policy=on_policy).backward()
            kept[key] = gradients(policy)
        return kept[key]

    return wanted


def make_objective(loss: HandLoss, surrogate: PolicyLoss | None = None) -> Objective:
    arguments: dict[str, Any] = {"length": loss.constant} if loss.aggregation == "constant_length" else {}
    kl = None if loss.kl is None else KLTerm(estimator=grpo_lightning.create("kl", loss.kl), weight=loss.beta)
    return Objective(
        surrogate or grpo_lightning.create("loss", "clipped", epsilon_low=loss.low, epsilon_high=loss.high),
        grpo_lightning.create("aggregation", loss.aggregation, **arguments),
        kl,
        None,
    )


def make_buffer(
    policy: CausalLM, rows: Sequence[HandRow], loss: HandLoss, objective: Objective, *, budget: int, **changed: Any
) -> Buffer:
    settings = BufferSettings(
        aggregation=objective.aggregation,
        epochs=1,
        updates=1,
        budget=budget,
        micro_batches=99,
        whole_groups=objective.loss.scope == "group",
        run_all=objective.runs_silent_rows,
        mask_truncated=loss.mask_truncated,
        seed=5,
    )
    collected = to_collected(rows)
    buffer = fill(collected, replace(settings, **changed), rollout=0)
    buffer.old_log_probs_S = old_log_probs(rows)
    if objective.needs_reference_log_probs:
        buffer.reference_log_probs_S = score(policy, collected.rollouts, range(len(rows)), budget, "reference")
    return buffer


def update_gradient(policy: CausalLM, buffer: Buffer, objective: Objective, update: int = 0) -> dict[str, Tensor]:
    """What backward over the micro-batches of an update leaves."""
    statistics = UpdateStatistics()
    for index in range(99):
        micro = buffer.micro_batch(update, index)
        if micro is None:
            break
        objective(policy, micro, statistics).backward()
    return gradients(policy)


def split_gradient(
    policy: CausalLM,
    rows: Sequence[HandRow],
    loss: HandLoss,
    *,
    budget: int = BUDGETS[1],
    surrogate: PolicyLoss | None = None,
    **changed: Any,
) -> dict[str, Tensor]:
    objective = make_objective(loss, surrogate)
    return update_gradient(policy, make_buffer(policy, rows, loss, objective, budget=budget, **changed), objective)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_any_number_of_micro_batches(policy: CausalLM, rows: list[HandRow], by_hand: Any, aggregation: str) -> None:
    loss = HandLoss(aggregation, kl="k2", beta=0.2)
    for count, budget in BUDGETS.items():
        objective = make_objective(loss)
        buffer = make_buffer(policy, rows, loss, objective, budget=budget)
        assert len(buffer.plans[0].micro_batches) == count
        assert relative(update_gradient(policy, buffer, objective), by_hand(loss)) < 1e-10


@pytest.mark.parametrize("budget", BUDGETS.values())
def test_packed_rows(policy: CausalLM, rows: list[HandRow], by_hand: Any, budget: int) -> None:
    packed = copy.copy(policy)
    packed.layout = "packed"
    for loss in (HandLoss(kl="exact", beta=0.2), HandLoss("sequence_mean_token_mean")):
        assert relative(split_gradient(packed, rows, loss, budget=budget), by_hand(loss)) < 1e-10


def test_packed_survives_the_probe() -> None:
    assert tiny_policy(layout="packed").layout == "packed"


@pytest.mark.parametrize("order", [[8, 7, 6, 5, 4, 3, 2, 1, 0], [3, 0, 8, 5, 1, 4, 2, 7, 6]])
def test_permuted_rows(policy: CausalLM, rows: list[HandRow], by_hand: Any, order: list[int]) -> None:
    for aggregation in ("token_mean", "prompt_mean"):
        loss = HandLoss(aggregation, kl="k3", beta=0.2)
        for budget in (BUDGETS[2], BUDGETS[4]):
            assert relative(split_gradient(policy, permuted(rows, order), loss, budget=budget), by_hand(loss)) < 1e-10


def test_reordered_groups(policy: CausalLM, rows: list[HandRow], by_hand: Any) -> None:
    loss = HandLoss("prompt_mean", kl="k3", beta=0.2)
    renamed = [replace(row, group={7: 0, 2: 30, 4: 1, 9: 12}[row.group]) for row in rows]
    renamed.sort(key=lambda row: row.group)
    assert relative(split_gradient(policy, renamed, loss, budget=BUDGETS[4]), by_hand(loss)) < 1e-10


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_rows_of_advantage_0_are_skipped_but_counted(
    policy: CausalLM, rows: list[HandRow], by_hand: Any, aggregation: str
) -> None:
    loss = HandLoss(aggregation)
    objective = make_objective(loss)
    assert not objective.runs_silent_rows
    skipped = make_buffer(policy, rows, loss, objective, budget=BUDGETS[2])
    ran = make_buffer(policy, rows, loss, objective, budget=BUDGETS[2], run_all=True)
    assert skipped.run_rows() == [0, 1, 2, 3, 4, 5, 6]
    assert ran.run_rows() == list(range(9))
    for buffer in (skipped, ran):
        assert relative(update_gradient(policy, buffer, objective), by_hand(loss)) < 1e-10


def test_a_kl_in_the_loss_runs_rows_of_advantage_0(policy: CausalLM, rows: list[HandRow]) -> None:
    loss = HandLoss(kl="k2", beta=0.2)
    buffer = make_buffer(policy, rows, loss, make_objective(loss), budget=BUDGETS[2])
    assert buffer.run_rows() == list(range(9))


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_truncated_rows_leave_n_and_t(policy: CausalLM, rows: list[HandRow], by_hand: Any, aggregation: str) -> None:
    loss = HandLoss(aggregation, kl="abs", beta=0.2, mask_truncated=True)
    without = [row for row in rows if not row.truncated]
    assert len(without) == 8
    for budget in (BUDGETS[1], BUDGETS[4]):
        masked = split_gradient(policy, rows, loss, budget=budget)
        assert relative(masked, by_hand(loss)) < 1e-10
        assert relative(split_gradient(policy, without, loss, budget=budget), masked) < 1e-10


def test_float32(rows: list[HandRow]) -> None:
    single = tiny_policy(dtype="float32")
    single.freeze_reference()
    move(single.causal_lm, seed=3)
    double = tiny_policy()
    double.freeze_reference()
    move(double.causal_lm, seed=3)
    loss = HandLoss("sequence_mean_token_mean", kl="k3", beta=0.2)
    wanted = split_gradient(single, rows, loss)
    for budget in BUDGETS.values():
        assert relative(split_gradient(single, rows, loss, budget=budget), wanted) < 1e-5
    single.layout = "packed"
    assert relative(split_gradient(single, permuted(rows, list(range(8, -1, -1))), loss, budget=60), wanted) < 1e-5
    hand_loss(double.causal_lm, rows, loss, reference=double._reference[0]).backward()
    assert relative(wanted, gradients(double)) < 1e-5


def test_on_policy_needs_no_old_log_probs(policy: CausalLM, rows: list[HandRow], by_hand: Any) -> None:
    loss = HandLoss(kl="k2", beta=0.2)
    for budget in BUDGETS.values():
        objective = make_objective(loss)
        buffer = make_buffer(policy, rows, loss, objective, budget=budget)
        buffer.old_log_probs_S = None
        assert relative(update_gradient(policy, buffer, objective), by_hand(loss, on_policy=True)) < 1e-10


@pytest.mark.parametrize("epochs", [1, 2])
@pytest.mark.parametrize("aggregation", ["token_mean", "prompt_mean"])
def test_each_update_of_a_rollout_is_normalised_by_itself(
    policy: CausalLM, rows: list[HandRow], by_hand: Any, aggregation: str, epochs: int
) -> None:
    loss = HandLoss(aggregation, kl="k2", beta=0.2)
    objective = make_objective(loss)
    dealt = []
    for budget in (BUDGETS[1], 25):
        buffer = make_buffer(policy, rows, loss, objective, budget=budget, updates=2, epochs=epochs)
        assert len(buffer.plans) == 2 * epochs
        parts = [frozenset(rows[row].group for batch in plan.micro_batches for row in batch) for plan in buffer.plans]
        for epoch in range(epochs):
            first, second = parts[2 * epoch : 2 * epoch + 2]
            assert not first & second
            assert first | second == {7, 2, 4, 9}
            assert len(first) == len(second) == 2
        for update, groups in enumerate(parts):
            run = sorted(row for batch in buffer.plans[update].micro_batches for row in batch.tolist())
            assert run == [row for row, each in enumerate(rows) if each.group in groups]
            assert relative(update_gradient(policy, buffer, objective, update), by_hand(loss, groups)) < 1e-10
        dealt.append(parts)
    assert dealt[0] == dealt[1]


def by_hand_units(policy: CausalLM, rows: Sequence[HandRow], loss: HandLoss, scope: str) -> dict[str, Tensor]:
    """A term of a row stands at each of its steps, a term of a group at each step of its rows."""
    from helpers.hand_loss import step_weight
    from helpers.tiny_policy import row_distributions

    total: Any = 0.0
    means: dict[int, list[tuple[HandRow, Tensor]]] = {}
    for row in rows:
        lp = row_distributions(policy.causal_lm, row.prompt, row.actions, row.temperature)
        steps = [step for step in range(len(row.actions)) if row.written[step]]
        mean = sum(lp[step, row.actions[step]] - row.old[step] for step in steps) / len(steps)
        means.setdefault(row.group, []).append((row, mean))  # type: ignore[arg-type]
    for members in means.values():
        weights = [step_weight(loss, rows, row) * row.length for row, _ in members]
        if scope == "sequence":
            terms = [-row.advantage * mean.exp() for row, mean in members]
            total = total + sum(weight * term for weight, term in zip(weights, terms, strict=True))
        else:
            term = sum(row.advantage * mean for row, mean in members) * sum(mean for _, mean in members)
            total = total + sum(weights) * term
    total.backward()
    return gradients(policy)


@pytest.mark.parametrize("aggregation", ["token_mean", "sequence_mean_token_mean", "prompt_mean"])
def test_sequence_scope(policy: CausalLM, rows: list[HandRow], aggregation: str) -> None:
    loss = HandLoss(aggregation)
    wanted = by_hand_units(policy, rows, loss, "sequence")
    for budget in BUDGETS.values():
        found = split_gradient(policy, rows, loss, budget=budget, surrogate=RowSurrogate())
        assert relative(found, wanted) < 1e-10


@pytest.mark.parametrize("aggregation", ["token_mean", "sequence_mean_token_mean", "prompt_mean"])
def test_group_scope_keeps_groups_whole(policy: CausalLM, rows: list[HandRow], aggregation: str) -> None:
    loss = HandLoss(aggregation)
    wanted = by_hand_units(policy, rows, loss, "group")
    mixed = permuted(rows, [3, 0, 8, 5, 1, 4, 2, 7, 6])
    for budget, order in [(BUDGETS[1], rows), (BUDGETS[2], rows), (1, rows), (BUDGETS[2], mixed), (1, mixed)]:
        objective = make_objective(loss, GroupSpread())
        buffer = make_buffer(policy, order, loss, objective, budget=budget)
        seen = [{order[row].group for row in batch.tolist()} for batch in buffer.plans[0].micro_batches]
        assert sum(len(groups) for groups in seen) == len(set().union(*seen))
        assert relative(update_gradient(policy, buffer, objective), wanted) < 1e-10


def test_ceiling_of_micro_batches_is_kept(policy: CausalLM, rows: list[HandRow], by_hand: Any) -> None:
    loss = HandLoss()
    for most in (1, 2, 3, 5):
        objective = make_objective(loss)
        buffer = make_buffer(policy, rows, loss, objective, budget=1, micro_batches=most)
        assert len(buffer.plans[0].micro_batches) <= most
        assert relative(update_gradient(policy, buffer, objective), by_hand(loss)) < 1e-10


def test_buffer_survives_its_state(policy: CausalLM, rows: list[HandRow], by_hand: Any, tmp_path: Any) -> None:
    loss = HandLoss(kl="k2", beta=0.2)
    objective = make_objective(loss)
    buffer = make_buffer(policy, rows, loss, objective, budget=BUDGETS[4], updates=2)
    torch.save(buffer.state_dict(), tmp_path / "buffer.pt")
    again = Buffer.from_state_dict(torch.load(tmp_path / "buffer.pt", weights_only=True))
    for update in range(2):
        before, after = (update_gradient(policy, each, objective, update) for each in (buffer, again))
        assert all(torch.equal(before[name], after[name]) for name in before)
