"""Tokens that run for rows without signal alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from grpo_lightning import profiling
from grpo_lightning.rollout.silent import count_silent, silent_tokens
from grpo_lightning.types import Ragged, Rollouts


def rollouts() -> Rollouts:
    """Prompts of 5 and 3; rows of 4, 2 and 1 steps on the first, 3 and 2 on the second."""
    lengths, count = [4, 2, 1, 3, 2], 5
    steps = sum(lengths)
    trainable = torch.ones(steps, dtype=torch.bool)
    trainable[1] = False
    index = torch.arange(count)
    return Rollouts(
        prompts=Ragged.from_list([[7] * 5, [8] * 3], torch.int64),
        prompt_R=torch.tensor([0, 0, 0, 1, 1]),
        group_R=torch.tensor([0, 0, 0, 1, 1]),
        member_R=index,
        trajectory_R=index,
        attempt_R=torch.zeros_like(index),
        finish_R=torch.zeros_like(index),
        temperature_R=torch.ones(count),
        version_R=torch.zeros_like(index),
        actions=Ragged.from_list([[9] * length for length in lengths], torch.int64),
        trainable_S=trainable,
        turn_S=torch.zeros(steps, dtype=torch.int64),
        behaviour_log_probs_S=torch.zeros(steps),
    )


def advantages(*rows: float) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64).repeat_interleave(torch.tensor([4, 2, 1, 3, 2]))


def test_rows_and_prompts_without_signal() -> None:
    rows = rollouts()
    every = torch.arange(5)
    assert silent_tokens(rows, advantages(1, -1, 2, 1, 1), every) == 0
    # row 1 runs 1 token beside its prompt, row 2 none: its only step is predicted by the prompt
    assert silent_tokens(rows, advantages(1, 0, 0, 1, 1), every) == 1
    # the second group has no signal at all: its prompt of 3 runs for nothing
    assert silent_tokens(rows, advantages(1, 0, 0, 0, 0), every) == 1 + (2 + 1 + 3)
    # of the first group only silent rows are in this pass
    assert silent_tokens(rows, advantages(1, 0, 0, 1, 1), torch.tensor([1, 3])) == 1 + 5


def test_a_step_that_does_not_train_has_no_signal() -> None:
    values_S = torch.zeros(12, dtype=torch.float64)
    values_S[1] = 3.0  # an environment's step
    assert silent_tokens(rollouts(), values_S, torch.tensor([0])) == 3 + 5


def test_passes_that_are_not_run_are_not_counted() -> None:
    buffer: Any = SimpleNamespace(rollouts=rollouts(), advantages_S=advantages(0, 0, 0, 1, 1))
    parts = [torch.tensor([0, 1]), torch.tensor([2, 3, 4]), torch.tensor([1, 0])]
    count_silent(buffer, parts)  # nobody measures
    profiler = profiling.Profiler()
    profiling.start(profiler)
    count_silent(buffer, parts)
    profiling.stop()
    # the prompt of 5 once in each of two passes, 3 + 1 + 0 actions
    assert profiler.records["rest"].silent == (5 + 3 + 1) + (5 + 0)
