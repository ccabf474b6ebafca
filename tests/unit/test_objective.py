"""What an objective refuses, asks for and reports; its value and gradient are tested in ``tests/integration``."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from grpo_lightning import create
from grpo_lightning.errors import ConfigError
from grpo_lightning.kl.base import KLTerm
from grpo_lightning.losses.base import LossInputs, LossTerms, PolicyLoss
from grpo_lightning.losses.clipped import ClippedPolicyLoss
from grpo_lightning.objective import Objective
from grpo_lightning.policies.causal_lm import CausalLM
from grpo_lightning.rollout.buffer import MicroBatch
from grpo_lightning.rollout.scoring import score
from grpo_lightning.rollout.statistics import UpdateStatistics
from helpers.hand_loss import HandRow, example_rows, old_log_probs, to_collected
from helpers.tiny_policy import move, row_distributions, tiny_policy


class Rowwise(PolicyLoss):
    """A loss with a term a row that only token means make sense of."""

    name = "test_rowwise"
    scope = "sequence"
    aggregations = frozenset({"sequence_mean_token_mean"})

    def __call__(self, inputs: LossInputs) -> LossTerms:
        return LossTerms(-inputs.row_advantages() * inputs.mean_rows(inputs.log_probs_S))


class Groupwise(Rowwise):
    name = "test_groupwise"
    scope = "group"
    aggregations = None


class Whole(Rowwise):
    name = "test_whole"
    scope = "update"
    aggregations = None


class Weighing(ClippedPolicyLoss):
    name = "test_weighing"
    weighs_sampler = True


class Restless(ClippedPolicyLoss):
    name = "test_restless"
    runs_silent = True


class Entropic(ClippedPolicyLoss):
    name = "test_entropic"
    functionals = frozenset({"entropy"})


def objective(
    loss: PolicyLoss | None = None, aggregation: str = "token_mean", kl: KLTerm | None = None, correction: Any = None
) -> Objective:
    return Objective(loss or ClippedPolicyLoss(), create("aggregation", aggregation), kl, correction)


def kl_term(name: str = "k2", **settings: Any) -> KLTerm:
    return KLTerm(estimator=create("kl", name), **settings)


def test_illegal_combinations_are_refused_with_the_reason() -> None:
    with pytest.raises(
        ConfigError, match=r"model\.aggregation: 'token_mean' has no meaning with loss 'test_rowwise'; did you"
    ):
        objective(Rowwise()).check()
    objective(Rowwise(), "sequence_mean_token_mean").check()
    objective(Whole()).check()
    with pytest.raises(
        ConfigError, match=r"model\.correction: 'truncated_importance' would weigh the sampler a second time"
    ):
        objective(Weighing(), correction=create("correction", "truncated_importance")).check()
    objective(Weighing()).check()
    steps = create("correction", "truncated_importance", level="step")
    for loss in (Rowwise(),):
        with pytest.raises(ConfigError, match=r"model\.correction: 'truncated_importance' weighs steps"):
            objective(loss, "sequence_mean_token_mean", correction=steps).check()
        whole = create("correction", "truncated_importance", level="sequence")
        objective(loss, "sequence_mean_token_mean", correction=whole).check()
    objective(correction=steps).check()


def test_the_exact_divergence_has_no_place_in_the_reward() -> None:
    with pytest.raises(ConfigError, match=r"model\.kl\.where: 'reward' does not go with estimator 'exact'"):
        objective(kl=kl_term("exact", where="reward")).check()
    for name in ("k1", "k2", "k3", "k3_unbiased", "abs"):
        objective(kl=kl_term(name, where="reward")).check()
    objective(kl=kl_term("exact")).check()


@pytest.mark.parametrize(
    ("kl", "in_loss", "reference", "log_probs", "silent"),
    [
        (None, False, False, False, False),
        (kl_term(weight=0.0), False, False, False, False),
        (kl_term(), True, True, True, True),
        (kl_term("exact"), True, True, False, True),
        (kl_term(where="reward"), False, True, False, False),
        (kl_term(where="reward", weight=0.0), False, False, False, False),
    ],
)
def test_what_a_kl_asks_for(kl: KLTerm | None, in_loss: bool, reference: bool, log_probs: bool, silent: bool) -> None:
    made = objective(kl=kl)
    found = (made.kl_in_loss, made.needs_reference, made.needs_reference_log_probs, made.runs_silent_rows)
    assert found == (in_loss, reference, log_probs, silent)


@pytest.mark.parametrize(
    ("loss", "silent"),
    [
        (ClippedPolicyLoss(), False),
        (Rowwise(), False),
        (Groupwise(), True),
        (Entropic(), True),
        (Whole(), True),
        (Restless(), True),
    ],
)
def test_losses_that_need_rows_of_advantage_0(loss: PolicyLoss, silent: bool) -> None:
    assert objective(loss).runs_silent_rows == silent


@pytest.fixture(scope="module")
def policy() -> CausalLM:
    made = tiny_policy()
    made.freeze_reference()
    move(made.causal_lm, seed=3)
    return made


@pytest.fixture(scope="module")
def rows(policy: CausalLM) -> list[HandRow]:
    return example_rows(policy.causal_lm)


def micro_batch(policy: CausalLM, rows: list[HandRow]) -> MicroBatch:
    collected = to_collected(rows)
    rollouts, written_S = collected.rollouts, collected.rollouts.trainable_S
    return MicroBatch(
        rollouts=rollouts,
        weights_R=torch.full((len(rows),), 0.25, dtype=torch.float64),
        advantages_S=collected.advantages_S[written_S],
        old_log_probs_S=old_log_probs(rows)[written_S],
        reference_log_probs_S=score(policy, rollouts, range(len(rows)), 99, "reference")[written_S],
    )


def test_reported_numbers_are_means_over_written_steps(policy: CausalLM, rows: list[HandRow]) -> None:
    statistics = UpdateStatistics()
    made = objective(ClippedPolicyLoss(epsilon_low=0.2, epsilon_high=0.3), kl=kl_term("k3", weight=0.5))
    loss = made(policy, micro_batch(policy, rows), statistics)
    found = statistics.reduce()
    columns: dict[str, list[float]] = {}
    policy_loss = kl_loss = 0.0
    with torch.no_grad():
        for row in rows:
            lp, ref = (
                row_distributions(model, row.prompt, row.actions, row.temperature)
                for model in (policy.causal_lm, policy._reference[0])
            )
            for step, token in enumerate(row.actions):
                if not row.written[step]:
                    continue
                ratio = math.exp(float(lp[step, token]) - row.old[step])
                d = float(lp[step, token] - ref[step, token])
                clip = {"low": row.advantage < 0 and ratio < 0.8, "high": row.advantage > 0 and ratio > 1.3}
                limited = 0.8 if clip["low"] else 1.3 if clip["high"] else ratio
                policy_loss -= 0.25 * row.advantage * limited
                kl_loss += 0.5 * 0.25 * (math.exp(-d) - 1 + d)
                step_values = {
                    "policy/ratio": ratio,
                    "policy/clip_fraction_low": float(clip["low"]),
                    "policy/clip_fraction_high": float(clip["high"]),
                    "policy/entropy": -float((lp[step].exp() * lp[step]).sum()),
                    "policy/kl": math.exp(-d) - 1 + d,
                    "policy/old_kl": ratio - 1 - math.log(ratio),
                    "policy/sampler_kl": row.mu[step] - row.old[step],
                }
                for name, value in step_values.items():
                    columns.setdefault(name, []).append(value)
    for name, values in columns.items():
        assert found[name] == pytest.approx(sum(values) / len(values), rel=1e-9), name
    assert found["policy/ratio_max"] == pytest.approx(max(columns["policy/ratio"]), rel=1e-9)
    assert found["policy/ratio_min"] == pytest.approx(min(columns["policy/ratio"]), rel=1e-9)
    assert found["train/policy_loss"] == pytest.approx(policy_loss, rel=1e-9)
    assert found["train/kl_loss"] == pytest.approx(kl_loss, rel=1e-9)
    assert found["train/loss"] == pytest.approx(policy_loss + kl_loss, rel=1e-9) == loss.item()
    assert found["perf/rows_run"] == len(rows)
    assert found["perf/steps_run"] == len(columns["policy/ratio"])
    assert set(found) == {*columns, "policy/ratio_max", "policy/ratio_min", "train/policy_loss", "train/kl_loss",
                          "train/loss", "perf/rows_run", "perf/steps_run", "perf/micro_batches"}  # fmt: skip


def test_without_a_kl_none_is_reported(policy: CausalLM, rows: list[HandRow]) -> None:
    for kl in (None, kl_term(weight=0.0), kl_term(where="reward")):
        statistics = UpdateStatistics()
        loss = objective(kl=kl)(policy, micro_batch(policy, rows), statistics)
        found = statistics.reduce()
        assert found["train/loss"] == found["train/policy_loss"] == pytest.approx(loss.item(), rel=1e-12)
        assert "policy/kl" not in found


def test_functionals_a_loss_asks_for_have_a_gradient(policy: CausalLM, rows: list[HandRow]) -> None:
    class Bonus(Entropic):
        name = "test_bonus"

        def __call__(self, inputs: LossInputs) -> LossTerms:
            assert set(inputs.functionals) == {"entropy"}
            return LossTerms(-inputs.functionals["entropy"])

    loss = objective(Bonus())(policy, micro_batch(policy, rows), UpdateStatistics())
    loss.backward()
    assert any(bool(parameter.grad.any()) for parameter in policy.parameters() if parameter.grad is not None)
    policy.zero_grad()
    with torch.no_grad():
        total = 0.0
        for row in rows:
            lp = row_distributions(policy.causal_lm, row.prompt, row.actions, row.temperature)
            total += sum(
                float((lp[step].exp() * lp[step]).sum()) for step in range(len(row.actions)) if row.written[step]
            )
    assert loss.item() == pytest.approx(0.25 * total, rel=1e-9)
