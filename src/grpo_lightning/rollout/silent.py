"""Rows without signal that go through the policy all the same."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from grpo_lightning import profiling
from grpo_lightning.rollout.buffer import Buffer
from grpo_lightning.types import Rollouts


def silent_tokens(rollouts: Rollouts, advantages_S: Tensor, rows: Tensor) -> int:
    """Tokens that one pass over ``rows`` runs for rows of advantage 0 alone.

    Their actions, less the last of each row, which predicts nothing; and once each prompt none of whose rows has a signal.

    Args:
        rollouts: Rows of this rank.
        advantages_S: [S] over all their steps.
        rows: int64 indices of the rows of the pass.
    """
    loud_S = rollouts.trainable_S & (advantages_S != 0)
    loud_R = torch.zeros(len(rollouts), dtype=torch.int64).index_add_(0, rollouts.row_S, loud_S.to(torch.int64)) > 0
    silent = rows[~loud_R[rows]]
    prompts = set(rollouts.prompt_R[silent].tolist()) - set(rollouts.prompt_R[rows[loud_R[rows]]].tolist())
    lengths_P, lengths_R = rollouts.prompts.lengths(), rollouts.actions.lengths()
    return int((lengths_R[silent] - 1).clamp(min=0).sum()) + sum(int(lengths_P[prompt]) for prompt in prompts)


def count_silent(buffer: Buffer, parts: Sequence[Tensor]) -> None:
    """Tell the profile of :func:`silent_tokens` in passes over ``parts``; one whose rows all ran before is not run."""
    if not profiling.active():
        return
    rollouts = buffer.rollouts
    ran_R, tokens = torch.zeros(len(rollouts), dtype=torch.bool), 0
    for rows in parts:
        if not bool(ran_R[rows].all()):
            tokens += silent_tokens(rollouts, buffer.advantages_S, rows)
            ran_R[rows] = True
    profiling.count(silent=tokens)
