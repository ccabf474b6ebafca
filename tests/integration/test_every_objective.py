"""One gradient for every legal surrogate and aggregation, through the real policy, objective and buffer, in float64.

The gradient of an update must not depend on how its rows are split into micro-batches, padded, packed or ordered. The
plainest layout (every row in one padded micro-batch, in order) is the yardstick here; that it is right is what the tests of
each loss against its formula, and ``test_one_gradient.py``, say.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from grpo_lightning import create
from grpo_lightning.corrections.base import Correction
from grpo_lightning.entropy_bonus import EntropyBonus
from grpo_lightning.errors import ConfigError
from grpo_lightning.kl.base import KLTerm
from grpo_lightning.losses.base import PolicyLoss
from grpo_lightning.objective import Objective
from grpo_lightning.pluginmanager import Plugins
from grpo_lightning.policies.causal_lm import CausalLM
from grpo_lightning.registry import Registry
from grpo_lightning.rollout.buffer import Buffer, BufferSettings, fill
from grpo_lightning.rollout.collector import Collected
from grpo_lightning.rollout.scoring import score
from grpo_lightning.rollout.statistics import UpdateStatistics
from grpo_lightning.rollout.table import GatheredTable
from helpers.hand_loss import HandLoss, HandRow, example_rows, old_log_probs, step_weight, to_collected
from helpers.tiny_policy import gradients, move, relative, row_distributions, tiny_policy

BUILT_IN = Registry(Plugins([]))
LOSSES = sorted(BUILT_IN.entries["loss"])
AGGREGATIONS = sorted(BUILT_IN.entries["aggregation"])
CORRECTIONS = sorted(BUILT_IN.entries["correction"])
ESTIMATORS = sorted(BUILT_IN.entries["kl"])
CLOSE = 1e-10
"""Relative L2 difference of two gradients that are one."""

# Ranges in which the rows of the example are partly clipped or masked, so that every branch is in the gradient.
SETTINGS: dict[str, dict[str, Any]] = {
    "gspo": {"epsilon_low": 0.02, "epsilon_high": 0.02},
    "gspo_token": {"epsilon_low": 0.02, "epsilon_high": 0.02},
    "luspo": {"epsilon_low": 0.02, "epsilon_high": 0.02},
    "clip_cov": {"fraction": 0.1, "cov_low": -10.0, "cov_high": 10.0},
    "kl_cov": {"fraction": 0.1},
}


@dataclass(frozen=True)
class Layout:
    """How the rows of an update are laid out."""

    budget: int = 10_000
    kind: str = "padded"
    order: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6, 7, 8)


LAYOUTS = {
    "two micro-batches": Layout(budget=60),
    "a row each": Layout(budget=1),
    "packed": Layout(kind="packed"),
    "packed, in four": Layout(budget=30, kind="packed"),
    "prompts shared": Layout(kind="shared"),
    "prompts shared, in three, in reverse": Layout(budget=45, kind="shared", order=(8, 7, 6, 5, 4, 3, 2, 1, 0)),
    "in reverse": Layout(order=(8, 7, 6, 5, 4, 3, 2, 1, 0)),
    "shuffled, in four": Layout(budget=30, order=(3, 0, 8, 5, 1, 4, 2, 7, 6)),
}


@pytest.fixture(scope="module")
def policy() -> CausalLM:
    made = tiny_policy()
    made.freeze_reference()
    move(made.causal_lm, seed=3)
    return made


@pytest.fixture(scope="module")
def rows(policy: CausalLM) -> list[HandRow]:
    return example_rows(policy.causal_lm)


def make(kind: str, name: str, **settings: Any) -> Any:
    parts = [create("correction", "truncated_importance"), create("correction", "icepop")]
    needed = {"constant_length": {"length": 9}, "product": {"parts": parts}, "tv_mask": {"limit": 0.2}}
    return create(kind, name, **{**SETTINGS.get(name, {}), **needed.get(name, {}), **settings})


def legal(objective: Objective) -> bool:
    try:
        objective.check()
    except ConfigError:
        return False
    return True


def collected(rows: list[HandRow], order: tuple[int, ...]) -> Collected:
    """The rows in another order, each with the group and member that it has."""
    whole, index = to_collected(rows), torch.tensor(order)
    rollouts = whole.rollouts.select(index)
    advantages_R = whole.advantages_R[index]
    return replace(
        whole,
        rollouts=rollouts,
        gathered=GatheredTable(whole.gathered.table.select(index), whole.gathered.own),
        advantages_R=advantages_R,
        advantages_S=advantages_R[rollouts.row_S],
        keep_R=whole.keep_R[index],
    )


def filled(policy: CausalLM, rows: list[HandRow], objective: Objective, layout: Layout) -> Buffer:
    ordered = [rows[index] for index in layout.order]
    settings = BufferSettings(
        aggregation=objective.aggregation,
        epochs=1,
        updates=1,
        budget=layout.budget,
        micro_batches=99,
        whole_groups=objective.loss.scope == "group",
        run_all=objective.runs_silent_rows,
        mask_truncated=False,
        seed=5,
        shares_prompts=policy.shares_prompts,
    )
    buffer = fill(collected(rows, layout.order), settings, rollout=0, version=3)
    buffer.old_log_probs_S = old_log_probs(ordered)
    if objective.needs_reference_log_probs:
        buffer.reference_log_probs_S = score(policy, buffer.rollouts, range(len(rows)), layout.budget, "reference")
    return buffer


def gradient(policy: CausalLM, rows: list[HandRow], objective: Objective, layout: Layout) -> dict[str, Tensor]:
    laid = copy.copy(policy)
    laid.layout = layout.kind
    buffer = filled(laid, rows, objective, layout)
    seen = objective.preview(laid, buffer, 0, (5, 0)) if objective.needs_preview else None
    for index in range(len(buffer.plans[0].micro_batches)):
        micro = buffer.micro_batch(0, index, seen)
        assert micro is not None
        objective(laid, micro, UpdateStatistics()).backward()
    return gradients(policy)


def expect_one_gradient(policy: CausalLM, rows: list[HandRow], objective: Objective) -> None:
    wanted = gradient(policy, rows, objective, Layout())
    assert any(bool(each.any()) for each in wanted.values()), "nothing has a gradient: the case says nothing"
    for name, layout in LAYOUTS.items():
        difference = relative(gradient(policy, rows, objective, layout), wanted)
        assert difference < CLOSE, f"{name}: {difference}"


def pairs() -> list[tuple[str, str]]:
    return [
        (loss, aggregation)
        for loss in LOSSES
        for aggregation in AGGREGATIONS
        if legal(Objective(make("loss", loss), make("aggregation", aggregation), None, None))
    ]


@pytest.mark.parametrize(("loss", "aggregation"), pairs())
def test_every_surrogate_and_aggregation(policy: CausalLM, rows: list[HandRow], loss: str, aggregation: str) -> None:
    objective = Objective(make("loss", loss), make("aggregation", aggregation), None, None)
    expect_one_gradient(policy, rows, objective)


def with_correction(loss: PolicyLoss, correction: Correction) -> Objective:
    legal_names = sorted(loss.aggregations or {"sequence_mean_token_mean"})
    return Objective(loss, make("aggregation", legal_names[0]), None, correction)


MASKS: dict[str, dict[str, Any]] = {
    "icepop": {"alpha": 0.8, "beta": 1.25},
    "off_policy_sequence_mask": {"delta": 0.01},
    "sequence_rejection": {"statistic": "k1", "over": "mean", "low": 0.9, "high": 1.2},
    "high_entropy": {"fraction": 0.4},
    "tv_mask": {"limit": 0.2},
    "truncated_importance": {"normalise": True},
}
"""Settings under which a part of the example's steps is masked, or all are weighed by what the others are."""


@pytest.mark.parametrize("denominator", ["original", "remaining"])
@pytest.mark.parametrize("correction", [name for name in CORRECTIONS if name in MASKS])
@pytest.mark.parametrize("loss", ["clipped", "gspo"])
def test_every_correction(policy: CausalLM, rows: list[HandRow], loss: str, correction: str, denominator: str) -> None:
    counted = {} if correction == "truncated_importance" else {"denominator": denominator}
    level = {"level": "sequence"} if loss == "gspo" and correction in ("icepop", "truncated_importance") else {}
    made = create("correction", correction, **MASKS[correction], **counted, **level)
    objective = with_correction(make("loss", loss), made)
    if legal(objective):
        expect_one_gradient(policy, rows, objective)
    else:
        assert made.level != "sequence"


def test_a_product_of_corrections(policy: CausalLM, rows: list[HandRow]) -> None:
    parts = [
        create("correction", name, **MASKS[name]) for name in ("icepop", "sequence_rejection", "truncated_importance")
    ]
    expect_one_gradient(
        policy, rows, with_correction(make("loss", "clipped"), create("correction", "product", parts=parts))
    )


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_what_remains_is_counted_by_hand(policy: CausalLM, rows: list[HandRow], aggregation: str) -> None:
    """``sum_i w_i sum_t kappa term`` over steps with ``kappa`` in the range, ``w`` from their numbers alone."""
    correction = create("correction", "icepop", alpha=0.8, beta=1.25, denominator="remaining")
    objective = Objective(make("loss", "clipped"), make("aggregation", aggregation), None, correction)
    found = gradient(policy, rows, objective, Layout(budget=60))

    def kept(row: HandRow) -> list[int]:
        return [
            step
            for step, own in enumerate(row.written)
            if own and 0.8 <= math.exp(row.old[step] - row.mu[step]) <= 1.25
        ]

    remaining = [replace(row, written=[step in kept(row) for step in range(len(row.written))]) for row in rows]
    remaining = [row for row in remaining if row.length > 0]
    assert sum(row.length for row in remaining) < sum(row.length for row in rows)
    total = torch.zeros((), dtype=torch.float64)
    for row in remaining:
        lp_TV = row_distributions(policy.causal_lm, row.prompt, row.actions, row.temperature)
        for step in kept(row):
            ratio = (lp_TV[step, row.actions[step]] - row.old[step]).exp()
            term = -torch.minimum(ratio * row.advantage, ratio.clamp(0.8, 1.2) * row.advantage)
            kappa = math.exp(row.old[step] - row.mu[step])
            total = total + step_weight(HandLoss(aggregation), remaining, row) * kappa * term
    total.backward()
    assert relative(found, gradients(policy)) < CLOSE


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("loss", ["clipped", "kl_cov", "real"])
def test_every_kl_beside_every_scope(policy: CausalLM, rows: list[HandRow], loss: str, estimator: str) -> None:
    surrogate = make("loss", loss)
    aggregation = sorted(surrogate.aggregations or {"token_mean"})[0]
    kl = KLTerm(estimator=make("kl", estimator), weight=0.3)
    expect_one_gradient(policy, rows, Objective(surrogate, make("aggregation", aggregation), kl, None))


def test_entropy_bonus(policy: CausalLM, rows: list[HandRow]) -> None:
    bonus = EntropyBonus(weight=0.2)
    expect_one_gradient(
        policy, rows, Objective(make("loss", "clipped"), make("aggregation", "token_mean"), None, None, bonus)
    )


def test_kl_and_entropy_keep_their_normaliser_where_steps_leave_that_of_the_policy(
    policy: CausalLM, rows: list[HandRow]
) -> None:
    """``sum over all steps of beta k2 - alpha H``, divided by all steps, is in both gradients; so it cancels."""
    found = []
    for terms in ((None, None), (KLTerm(estimator=make("kl", "k2"), weight=0.3), EntropyBonus(weight=0.2))):
        for denominator in ("original", "remaining"):
            correction = create("correction", "high_entropy", fraction=0.3, denominator=denominator)
            objective = Objective(
                make("loss", "clipped"), make("aggregation", "token_mean"), terms[0], correction, terms[1]
            )
            buffer = filled(policy, rows, objective, Layout(budget=60))
            statistics = UpdateStatistics()
            seen = objective.preview(policy, buffer, 0, (5, 0))
            for index in range(len(buffer.plans[0].micro_batches)):
                micro = buffer.micro_batch(0, index, seen)
                assert micro is not None
                objective(policy, micro, statistics)
            found.append(statistics.reduce())
    for metrics in found[2:]:
        assert metrics["train/kl_loss"] == pytest.approx(0.3 * metrics["policy/kl"], rel=1e-12)
        assert metrics["train/entropy_loss"] == pytest.approx(-0.2 * metrics["policy/entropy"], rel=1e-12)
    assert found[3]["train/policy_loss"] == pytest.approx(found[1]["train/policy_loss"], rel=1e-12)
    assert found[3]["train/policy_loss"] != pytest.approx(found[2]["train/policy_loss"], rel=1e-3)


def combinations(loss: str) -> list[Objective]:
    return [
        Objective(
            make("loss", loss),
            make("aggregation", aggregation),
            KLTerm(estimator=make("kl", estimator), where=where),
            None if correction is None else make("correction", correction),
        )
        for aggregation in AGGREGATIONS
        for correction in [None, *CORRECTIONS]
        for estimator in ESTIMATORS
        for where in ("loss", "reward")
    ]


def refusal(objective: Objective) -> ConfigError | None:
    try:
        objective.check()
    except ConfigError as error:
        return error
    return None


@pytest.mark.parametrize("loss", LOSSES)
def test_what_does_not_compose_is_refused_with_the_reason_and_a_way_out(loss: str) -> None:
    refusals = [(objective, refusal(objective)) for objective in combinations(loss)]
    assert any(error is None for _, error in refusals)
    for objective, error in refusals:
        surrogate, correction, kl = objective.loss, objective.correction, objective.kl
        assert kl is not None
        wrong = [
            surrogate.aggregations is not None and objective.aggregation.name not in surrogate.aggregations,
            correction is not None and correction.off_policy and surrogate.weighs_sampler,
            correction is not None and surrogate.scope == "sequence" and correction.level != "sequence",
            correction is not None and surrogate.scope == "group",
            kl.where == "reward" and kl.estimator.name == "exact",
        ]
        assert (error is not None) == any(wrong)
        if error is not None:
            assert error.setting.startswith("model.")
            assert len(error.reason) > 20
            assert error.fix
