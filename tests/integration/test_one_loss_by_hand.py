"""One GRPO loss and its gradient against loops over rows and tokens."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch

import grpo_lightning
from grpo_lightning.kl.base import KLTerm
from grpo_lightning.objective import Objective
from grpo_lightning.policies.causal_lm import CausalLM
from grpo_lightning.rollout.buffer import BufferSettings, MicroBatch, fill
from grpo_lightning.rollout.scoring import score
from grpo_lightning.rollout.statistics import UpdateStatistics
from helpers.hand_loss import HandLoss, HandRow, example_rows, hand_loss, old_log_probs, to_collected
from helpers.tiny_policy import gradients, move, relative, tiny_policy, worst_relative

AGGREGATIONS = [
    "token_sum",
    "token_mean",
    "sequence_mean_token_sum",
    "sequence_mean_token_mean",
    "constant_length",
    "prompt_mean",
]
ESTIMATORS = ["k1", "abs", "k2", "k3", "k3_unbiased", "exact"]


@pytest.fixture(scope="module")
def policy() -> CausalLM:
    """A policy that has moved away from its reference."""
    made = tiny_policy(head_logits=150)
    made.freeze_reference()
    move(made.causal_lm, seed=3)
    return made


@pytest.fixture(scope="module")
def rows(policy: CausalLM) -> list[HandRow]:
    return example_rows(policy.causal_lm)


def make_objective(loss: HandLoss) -> Objective:
    arguments: dict[str, Any] = {"length": loss.constant} if loss.aggregation == "constant_length" else {}
    kl = None if loss.kl is None else KLTerm(estimator=grpo_lightning.create("kl", loss.kl), weight=loss.beta)
    correction = None
    if loss.cap is not None:
        correction = grpo_lightning.create("correction", "truncated_importance", cap=loss.cap, level=loss.level)
    return Objective(
        grpo_lightning.create("loss", "clipped", epsilon_low=loss.low, epsilon_high=loss.high),
        grpo_lightning.create("aggregation", loss.aggregation, **arguments),
        kl,
        correction,
    )


def one_micro_batch(policy: CausalLM, rows: list[HandRow], loss: HandLoss, objective: Objective) -> MicroBatch:
    settings = BufferSettings(
        objective.aggregation, 1, 1, 10_000, 1, False, objective.runs_silent_rows, loss.mask_truncated, seed=0
    )
    collected = to_collected(rows)
    buffer = fill(collected, settings, rollout=0)
    buffer.old_log_probs_S = old_log_probs(rows)
    if objective.needs_reference_log_probs:
        buffer.reference_log_probs_S = score(policy, collected.rollouts, range(len(rows)), 10_000, "reference")
    assert len(buffer.plans) == len(buffer.plans[0].micro_batches) == 1
    micro = buffer.micro_batch(0, 0)
    assert micro is not None
    return micro


def compare(policy: CausalLM, rows: list[HandRow], loss: HandLoss) -> tuple[float, float]:
    """Relative differences of value and gradient; the worst parameter's is bounded, too."""
    objective = make_objective(loss)
    micro = one_micro_batch(policy, rows, loss, objective)
    found = objective(policy, micro, UpdateStatistics())
    found.backward()
    found_gradient = gradients(policy)
    wanted = hand_loss(policy.causal_lm, rows, loss, reference=policy._reference[0])
    wanted.backward()
    wanted_gradient = gradients(policy)
    assert any(bool(each.any()) for each in wanted_gradient.values())
    assert worst_relative(found_gradient, wanted_gradient) < 1e-10
    return abs(found.item() - wanted.item()) / abs(wanted.item()), relative(found_gradient, wanted_gradient)


def test_example_has_every_case(policy: CausalLM, rows: list[HandRow]) -> None:
    objective = make_objective(HandLoss())
    statistics = UpdateStatistics()
    objective(policy, one_micro_batch(policy, rows, HandLoss(), objective), statistics)
    metrics = statistics.reduce()
    assert metrics["policy/clip_fraction_low"] > 0.02
    assert metrics["policy/clip_fraction_high"] > 0.02
    assert 0.5 < metrics["policy/ratio_min"] < 0.6
    assert 1.7 < metrics["policy/ratio_max"] < 1.9
    assert {len(row.actions) for row in rows if not all(row.written)}


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_aggregations(policy: CausalLM, rows: list[HandRow], aggregation: str) -> None:
    value, gradient = compare(policy, rows, HandLoss(aggregation))
    assert value < 1e-10
    assert gradient < 1e-10


@pytest.mark.parametrize(("kl", "aggregation"), [*zip(ESTIMATORS, AGGREGATIONS, strict=True)])
def test_kl_in_the_loss(policy: CausalLM, rows: list[HandRow], kl: str, aggregation: str) -> None:
    value, gradient = compare(policy, rows, HandLoss(aggregation, kl=kl, beta=0.3))
    assert value < 1e-10
    assert gradient < 1e-10


@pytest.mark.parametrize(("aggregation", "level"), [*zip(AGGREGATIONS, ["step", "sequence"] * 3, strict=True)])
def test_correction(policy: CausalLM, rows: list[HandRow], level: str, aggregation: str) -> None:
    value, gradient = compare(policy, rows, HandLoss(aggregation, kl="k2", beta=0.1, cap=1.3, level=level))
    assert value < 1e-10
    assert gradient < 1e-10


def test_wide_ranges_never_clip_and_narrow_ones_always(policy: CausalLM, rows: list[HandRow]) -> None:
    for low, high in [(1.0, 1e6), (0.0, 0.0), (0.05, 1.0)]:
        value, gradient = compare(policy, rows, HandLoss(low=low, high=high))
        assert value < 1e-10
        assert gradient < 1e-10


def test_truncated_rows_leave_loss_and_normalisers(policy: CausalLM, rows: list[HandRow]) -> None:
    for aggregation in AGGREGATIONS:
        loss = HandLoss(aggregation, kl="k3", beta=0.2, mask_truncated=True)
        value, gradient = compare(policy, rows, loss)
        assert value < 1e-10
        assert gradient < 1e-10


def test_on_policy_old_log_probs_are_the_current_ones(policy: CausalLM, rows: list[HandRow]) -> None:
    loss = HandLoss(kl="k2", beta=0.2, cap=1.5)
    objective = make_objective(loss)
    micro = replace(one_micro_batch(policy, rows, loss, objective), old_log_probs_S=None)
    found = objective(policy, micro, UpdateStatistics())
    found.backward()
    found_gradient = gradients(policy)
    wanted = hand_loss(policy.causal_lm, rows, loss, reference=policy._reference[0], on_policy=True)
    wanted.backward()
    assert abs(found.item() - wanted.item()) < 1e-10 * abs(wanted.item())
    assert relative(found_gradient, gradients(policy)) < 1e-10


def test_head_chunks_and_gradient_of_their_recomputation(policy: CausalLM, rows: list[HandRow]) -> None:
    other = copy.copy(policy)
    loss = HandLoss(kl="exact", beta=0.3)
    objective = make_objective(loss)
    micro = one_micro_batch(policy, rows, loss, objective)
    results = []
    for logits in (1, 130, 10_000_000):
        other.head_logits = logits
        value = objective(other, micro, UpdateStatistics())
        value.backward()
        results.append((value.item(), gradients(policy)))
    for value, gradient in results[1:]:
        assert abs(value - results[0][0]) < 1e-12
        assert relative(gradient, results[0][1]) < 1e-10


def test_environment_steps_have_no_part_in_the_loss(policy: CausalLM, rows: list[HandRow]) -> None:
    loss = HandLoss(kl="exact", beta=0.3, cap=1.3, level="sequence")
    objective = make_objective(loss)
    before = objective(policy, one_micro_batch(policy, rows, loss, objective), UpdateStatistics())
    changed = [replace(row, old=list(row.old), mu=list(row.mu)) for row in rows]
    for row in changed:
        for step, written in enumerate(row.written):
            if not written:
                row.old[step], row.mu[step] = 5.0, -7.0
    after = objective(policy, one_micro_batch(policy, changed, loss, objective), UpdateStatistics())
    assert torch.equal(before, after)
