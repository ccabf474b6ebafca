"""A rollout in progress that one number of ranks has saved, dealt to another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from grpo_lightning.rollout import world
from grpo_lightning.rollout.buffer import Buffer, BufferSettings, UpdatePlan
from grpo_lightning.rollout.micro_batches import micro_batches
from grpo_lightning.types import Rollouts


def redeal(states: Sequence[Mapping[str, Any]], settings: BufferSettings) -> Buffer:
    """This rank's share of a rollout: groups go to the ranks that they would have been sampled on, and their rows keep their
    updates, weights, advantages and log-probabilities; micro-batches are made anew.

    Args:
        states: ``Buffer.state_dict()`` of every rank that saved, in order.
        settings: How rollouts are dealt now.
    """
    whole = merged([Buffer.from_state_dict(state) for state in states])
    ordinals = torch.unique(whole.rollouts.group_R)
    own = world.block(len(ordinals))
    rows = torch.isin(whole.rollouts.group_R, ordinals[own.start : own.stop]).nonzero().squeeze(1)
    steps = whole.rollouts.actions.positions(rows)
    rollouts = whole.rollouts.select(rows).without_unused_prompts()
    plans = []
    for plan in whole.plans:
        run = torch.cat([*plan.micro_batches, torch.empty(0, dtype=torch.int64)])
        parts = micro_batches(
            rollouts,
            torch.isin(rows, run).nonzero().squeeze(1).tolist(),
            settings.budget,
            shared=settings.shares_prompts,
            most=settings.micro_batches,
            whole_groups=settings.whole_groups,
        )
        plans.append(UpdatePlan(parts, plan.weights_R[rows]))
    return Buffer(
        rollouts,
        whole.advantages_S[steps],
        plans,
        None if whole.old_log_probs_S is None else whole.old_log_probs_S[steps],
        None if whole.reference_log_probs_S is None else whole.reference_log_probs_S[steps],
        None if whole.rewards_R is None else whole.rewards_R[rows],
        whole.version,
    )


def merged(buffers: Sequence[Buffer]) -> Buffer:
    """The rows of all ranks in one buffer, in order of rank; their micro-batches one after the other."""
    first = buffers[0]
    shifts = [0]
    for buffer in buffers:
        shifts.append(shifts[-1] + len(buffer.rollouts))
    plans = [
        UpdatePlan(
            [rows + shift for plan, shift in zip(parts, shifts, strict=False) for rows in plan.micro_batches],
            torch.cat([plan.weights_R for plan in parts]),
        )
        for parts in zip(*[buffer.plans for buffer in buffers], strict=True)
    ]

    def joined(of: Callable[[Buffer], Tensor | None]) -> Tensor | None:
        parts = [part for buffer in buffers if (part := of(buffer)) is not None]
        return torch.cat(parts) if parts else None

    return Buffer(
        Rollouts.cat([buffer.rollouts for buffer in buffers]),
        torch.cat([buffer.advantages_S for buffer in buffers]),
        plans,
        joined(lambda buffer: buffer.old_log_probs_S),
        joined(lambda buffer: buffer.reference_log_probs_S),
        joined(lambda buffer: buffer.rewards_R),
        first.version,
    )
