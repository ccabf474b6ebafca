"""Passes without gradient."""

from __future__ import annotations

import copy
from contextlib import nullcontext

import pytest
import torch

from grpo_lightning.policies.causal_lm import CausalLM
from grpo_lightning.rollout.micro_batches import micro_batches
from grpo_lightning.rollout.scoring import score, score_parts
from helpers.hand_loss import HandRow, example_rows, to_collected
from helpers.tiny_policy import move, row_distributions, tiny_policy


@pytest.fixture(scope="module")
def policy() -> CausalLM:
    made = tiny_policy()
    made.freeze_reference()
    move(made.causal_lm, seed=3)
    return made


@pytest.fixture(scope="module")
def rows(policy: CausalLM) -> list[HandRow]:
    return example_rows(policy.causal_lm)


def by_hand(policy: CausalLM, rows: list[HandRow], weights: str, run: list[int]) -> torch.Tensor:
    model = policy.causal_lm if weights == "current" else policy._reference[0]
    values = []
    with torch.no_grad():
        for index, row in enumerate(rows):
            lp = row_distributions(model, row.prompt, row.actions, row.temperature)
            for step, token in enumerate(row.actions):
                values.append(float(lp[step, token]) if row.written[step] and index in run else 0.0)
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("weights", ["current", "reference"])
@pytest.mark.parametrize("budget", [1, 30, 1000])
def test_scores_are_those_of_rows_alone(policy: CausalLM, rows: list[HandRow], weights: str, budget: int) -> None:
    rollouts = to_collected(rows).rollouts
    for run in (list(range(9)), [7, 2, 6], [0]):
        found = score(policy, rollouts, run, budget, weights)  # type: ignore[arg-type]
        assert float((found - by_hand(policy, rows, weights, run)).abs().max()) < 1e-12
        assert not found.requires_grad


def test_no_rows(policy: CausalLM, rows: list[HandRow]) -> None:
    found = score(policy, to_collected(rows).rollouts, [], 10, "current")
    assert found.shape == (49,)
    assert not found.any()


def test_parts_are_run_in_their_company(policy: CausalLM, rows: list[HandRow]) -> None:
    """In float32, the same bits as a pass over the same micro-batch with gradient, whatever else is scored."""
    single = tiny_policy(dtype="float32")
    rollouts = to_collected(rows).rollouts
    parts = [torch.tensor(part) for part in ([6, 2], [5, 0, 1], [3, 4, 7, 8])]
    found = score_parts(single, rollouts, [*parts, torch.tensor([2, 5, 8])], "current")
    for part in parts:
        steps = rollouts.actions.positions(part)
        steps = steps[rollouts.trainable_S[steps]]
        assert torch.equal(found[steps], single(rollouts.select(part))["log_prob"].detach())


def test_a_row_keeps_its_first_value(rows: list[HandRow]) -> None:
    calls: list[list[int]] = []

    class Counting:
        passes = nullcontext

        def __call__(self, selected: object, functionals: object, weights: str) -> dict[str, torch.Tensor]:
            members = selected.trajectory_R.tolist()  # type: ignore[attr-defined]
            calls.append(members)
            steps = int(selected.trainable_S.sum())  # type: ignore[attr-defined]
            return {"log_prob": torch.full((steps,), float(len(calls)))}

    rollouts = to_collected(rows).rollouts
    parts = [torch.tensor(part) for part in ([0, 1], [1, 2], [0, 2], [3])]
    found = score_parts(Counting(), rollouts, parts, "current")  # type: ignore[arg-type]
    assert calls == [[0, 1], [1, 2], [3]]
    values = [set(found[(rollouts.row_S == row) & rollouts.trainable_S].tolist()) for row in range(5)]
    assert values == [{1.0}, {1.0}, {2.0}, {3.0}, {0.0}]


def test_rows_and_parts_agree(policy: CausalLM, rows: list[HandRow]) -> None:
    rollouts = to_collected(copy.deepcopy(rows)).rollouts
    parts = micro_batches(rollouts, range(9), 30, shared=policy.shares_prompts)
    assert torch.equal(
        score(policy, rollouts, range(9), 30, "current"), score_parts(policy, rollouts, parts, "current")
    )
