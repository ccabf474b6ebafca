"""Rollouts with numbers that can be told apart, for tests of what carries them around."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from grpo_lightning.types import Ragged, Rollouts


def tiny_rollouts(lengths: Sequence[int], *, first: int = 0, support: bool = True, extras: bool = True) -> Rollouts:
    """Rows of ``lengths`` steps, two rows a prompt; every number in them is told by the row's and the step's index.

    Args:
        lengths: Steps of each row.
        first: Added to every index, so that several calls can be told apart.
        support: Whether steps carry one: step ``s`` of a row may choose from ``s % 3`` ids, so some from everything.
        extras: Whether prompts carry a further input, ``pixels``.
    """
    rows, prompts = len(lengths), (len(lengths) + 1) // 2
    row_R = torch.arange(first, first + rows)
    step = [first + 100 * i + t for i, length in enumerate(lengths) for t in range(length)]
    steps = torch.tensor(step, dtype=torch.int64)
    sets = [list(range(s % 3)) for s in step]
    return Rollouts(
        prompts=Ragged.from_list([[first + 7] * (1 + p) for p in range(prompts)], torch.int64),
        prompt_R=torch.arange(rows) // 2,
        group_R=first + torch.arange(rows) // 2,
        member_R=torch.arange(rows) % 2,
        trajectory_R=row_R,
        attempt_R=torch.zeros(rows, dtype=torch.int64),
        finish_R=row_R % 2,
        temperature_R=1.0 + row_R.float(),
        version_R=row_R + 10,
        actions=Ragged.from_list([step[sum(lengths[:i]) :][: lengths[i]] for i in range(rows)], torch.int64),
        trainable_S=steps % 2 == 0,
        turn_S=steps // 2,
        behaviour_log_probs_S=-steps.float() / 8,
        support=Ragged.from_list(sets, torch.int32) if support else None,
        extras={"pixels": Ragged(torch.randn(2 * prompts, 3), torch.arange(0, 2 * prompts + 1, 2))} if extras else {},
    )
