"""Which rows are scored before the updates of a buffer, and what the first update leaves for the others."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from grpo_lightning import create
from grpo_lightning.objective import Objective
from grpo_lightning.policies.causal_lm import CausalLM
from grpo_lightning.rollout.buffer import Buffer, BufferSettings, fill
from grpo_lightning.rollout.buffer_scores import score_buffer
from grpo_lightning.rollout.statistics import UpdateStatistics
from helpers.hand_loss import HandRow, example_rows, to_collected
from helpers.tiny_policy import move, row_distributions, tiny_policy


@pytest.fixture
def policy() -> CausalLM:
    made = tiny_policy()
    made.freeze_reference()
    move(made.causal_lm, seed=3)
    return made


def made(policy: CausalLM, epochs: int, updates: int) -> tuple[Buffer, list[HandRow]]:
    rows = example_rows(policy.causal_lm)
    settings = BufferSettings(
        aggregation=create("aggregation", "token_mean"), epochs=epochs, updates=updates, budget=30, micro_batches=99,
        whole_groups=False, run_all=True, mask_truncated=False, seed=5, shares_prompts=True,
    )  # fmt: skip
    return fill(to_collected(rows), settings, rollout=0), rows


def by_hand(model: Any, rows: list[HandRow]) -> list[list[float]]:
    """Log-probabilities of the written steps of each row, alone."""
    found = []
    with torch.no_grad():
        for row in rows:
            lp = row_distributions(model, row.prompt, row.actions, row.temperature)
            found.append([float(lp[step, token]) for step, token in enumerate(row.actions) if row.written[step]])
    return found


def kept(buffer: Buffer) -> list[list[float]]:
    old_S = buffer.old_log_probs_S
    assert old_S is not None
    return [old_S[buffer.rollouts.trainable_steps(torch.tensor([row]))].tolist() for row in range(len(buffer.rollouts))]


def scored(policy: CausalLM, buffer: Buffer, monkeypatch: pytest.MonkeyPatch, *, reference: bool = False) -> list[str]:
    """Weights of each pass while ``buffer`` is scored."""
    passes: list[str] = []
    forward = CausalLM.forward

    def watched(self: Any, rows: Any, functionals: Any = (), weights: str = "current", **more: Any) -> Any:
        passes.append(weights)
        return forward(self, rows, functionals, weights, **more)

    with monkeypatch.context() as patch:
        patch.setattr(CausalLM, "forward", watched)
        score_buffer(policy, buffer, reference=reference)
    return passes


def test_one_update_scores_nothing(policy: CausalLM, monkeypatch: pytest.MonkeyPatch) -> None:
    buffer, _ = made(policy, 1, 1)
    assert scored(policy, buffer, monkeypatch) == []
    assert buffer.old_log_probs_S is None


def test_a_second_pass_needs_no_pass_of_its_own(policy: CausalLM, monkeypatch: pytest.MonkeyPatch) -> None:
    buffer, rows = made(policy, 2, 1)
    assert scored(policy, buffer, monkeypatch) == []
    written = torch.tensor([flag for row in rows for flag in row.written])
    assert bool(buffer.old_log_probs_S[written].isnan().all())  # type: ignore[index]


@pytest.mark.parametrize(("epochs", "updates"), [(1, 2), (2, 1), (2, 3)])
def test_updates_after_the_first_see_the_weights_before_it(
    policy: CausalLM, monkeypatch: pytest.MonkeyPatch, epochs: int, updates: int
) -> None:
    buffer, rows = made(policy, epochs, updates)
    wanted = by_hand(policy.causal_lm, rows)
    first = set(buffer.rows_of(0).tolist())
    later = [part for part in buffer.parts() if not first.issuperset(part.tolist())]
    once = {tuple(part.tolist()) for part in later}
    assert len(scored(policy, buffer, monkeypatch)) == len(once)
    objective = Objective(create("loss", "clipped"), create("aggregation", "token_mean"), None, None)
    for index in range(len(buffer.plans[0].micro_batches)):
        micro = buffer.micro_batch(0, index)
        assert micro is not None
        assert micro.old_log_probs_S is None
        objective(policy, micro, UpdateStatistics())
    move(policy.causal_lm, seed=9)
    ran = {row for part in buffer.parts() for row in part.tolist()}
    for row, values in enumerate(kept(buffer)):
        if row in ran:
            assert values == pytest.approx(wanted[row], abs=1e-12)
    micro = buffer.micro_batch(1, 0)
    assert micro is not None
    assert micro.old_log_probs_S is not None
    flat = [value for row in buffer.plans[1].micro_batches[0].tolist() for value in wanted[row]]
    assert micro.old_log_probs_S.tolist() == pytest.approx(flat, abs=1e-12)
    assert wanted[0] != pytest.approx(by_hand(policy.causal_lm, rows)[0], abs=1e-4), "the weights have moved"


def test_the_reference_scores_every_row_that_runs(policy: CausalLM, monkeypatch: pytest.MonkeyPatch) -> None:
    buffer, rows = made(policy, 2, 1)
    passes = scored(policy, buffer, monkeypatch, reference=True)
    assert passes == ["reference"] * len(buffer.plans[0].micro_batches)
    wanted = by_hand(policy._reference[0], rows)
    for row in buffer.run_rows():
        steps = buffer.rollouts.trainable_steps(torch.tensor([row]))
        assert buffer.reference_log_probs_S is not None
        assert buffer.reference_log_probs_S[steps].tolist() == pytest.approx(wanted[row], abs=1e-12)
