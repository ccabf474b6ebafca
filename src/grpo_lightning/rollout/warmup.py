"""Supervised updates before GRPO."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from grpo_lightning.auxiliary.base import AuxiliaryLoss
from grpo_lightning.functional.seeding import addressed_permutation
from grpo_lightning.policies.base import Policy
from grpo_lightning.rollout import world
from grpo_lightning.rollout.buffer import fit
from grpo_lightning.rollout.scoring import row_costs
from grpo_lightning.types import Prompt, Rollouts


@dataclass(frozen=True)
class WarmupBatch:
    """The rows of one supervised update on this rank."""

    rollouts: Rollouts
    micro_batches: list[torch.Tensor]
    normaliser: float
    """Over all ranks."""


def warmup_indices(update: int, rows: int, size: int, seed: int) -> list[int]:
    """Rows of data of a warm-up update: a fresh permutation each pass, a function of the update alone.

    Args:
        update: Index of the update.
        rows: Rows an update.
        size: Rows of data.
        seed: Seed of the run.
    """
    passes: dict[int, torch.Tensor] = {}
    indices = []
    for position in range(update * rows, (update + 1) * rows):
        number, offset = divmod(position, size)
        if number not in passes:
            passes[number] = addressed_permutation(seed, "warmup", (number,), size)
        indices.append(int(passes[number][offset]))
    return indices


def warmup_batch(
    loss: AuxiliaryLoss,
    policy: Policy,
    prompt: Callable[[int], Prompt],
    indices: list[int],
    budget: int,
    micro_batches: int,
) -> WarmupBatch:
    """The part of an update's rows that is this rank's, in micro-batches."""
    own = [indices[i] for i in world.block(len(indices))]
    rollouts = loss.rows(policy, [prompt(index) for index in own])
    bins = fit(row_costs(rollouts, range(len(rollouts))), budget, micro_batches)
    normaliser = sum(world.gather(loss.normaliser(rollouts)))
    return WarmupBatch(rollouts, [torch.tensor(part) for part in bins], normaliser)
