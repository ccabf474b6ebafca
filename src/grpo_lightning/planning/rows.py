"""The rows that a plan is made for: every prompt as long as the longest, every completion as long as it may be."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from grpo_lightning.rollout.micro_batches import micro_batches
from grpo_lightning.rollout.schedule import micro_batches_needed
from grpo_lightning.types import Ragged, Rollouts


@dataclass(frozen=True)
class Lengths:
    """How much a rollout asks for."""

    prompt: int
    """Tokens of the longest prompt."""
    completion: int
    """Tokens that can follow it: of all turns, and of the environment's answers."""
    group_size: int
    groups: int
    """Of a rollout, over all processes."""
    updates: int
    """Updates of one pass over a rollout."""

    def groups_of(self, processes: int) -> int:
        """Groups of a rollout that one process samples, at most."""
        return -(-self.groups // processes)


@dataclass(frozen=True)
class Batches:
    """The micro-batches of an update on one process."""

    largest: Rollouts
    tokens: int
    """Tokens of the largest one as the model reads it."""
    most: int
    """How many there can be in an update."""
    alone: bool
    """Whether an update of the longest rows has no other."""


def batches(lengths: Lengths, processes: int, budget: int, *, shared: bool, whole_groups: bool = False) -> Batches:
    """The micro-batches of the longest rows there can be.

    Args:
        lengths: What a rollout asks for.
        processes: Processes that share it.
        budget: Tokens of a micro-batch.
        shared: A prompt is run once for the rows that follow it.
        whole_groups: Groups must be whole.
    """
    on_process = min(lengths.groups_of(processes), -(-lengths.groups // lengths.updates))
    group = lengths.prompt + lengths.group_size * lengths.completion
    rows = longest_rows(lengths, min(on_process, 1 + 2 * budget // group))
    parts = micro_batches(rows, list(range(len(rows))), budget, shared=shared, whole_groups=whole_groups)
    tokens = [_tokens(lengths, rows, part, shared) for part in parts]
    largest = tokens.index(max(tokens))
    row = lengths.prompt + lengths.completion
    size, unit = (1, row * lengths.group_size) if whole_groups else (lengths.group_size, row)
    most = micro_batches_needed(lengths.groups, size, lengths.updates, processes, unit, budget)
    return Batches(rows.select(parts[largest]).without_unused_prompts(), tokens[largest], most, len(parts) == 1)


def _tokens(lengths: Lengths, rows: Rollouts, part: torch.Tensor, shared: bool) -> int:
    prompts = len(torch.unique(rows.prompt_R[part])) if shared else len(part)
    return prompts * lengths.prompt + len(part) * lengths.completion


def longest_rows(lengths: Lengths, groups: int) -> Rollouts:
    """``groups`` groups of rows, each as long as it may be."""
    count = groups * lengths.group_size
    prompt_R = torch.arange(groups).repeat_interleave(lengths.group_size)
    zeros_R, steps = torch.zeros(count, dtype=torch.int64), count * lengths.completion
    return Rollouts(
        prompts=_ones(groups, lengths.prompt),
        prompt_R=prompt_R,
        group_R=prompt_R.clone(),
        member_R=torch.arange(count) % lengths.group_size,
        trajectory_R=torch.arange(count),
        attempt_R=zeros_R,
        finish_R=zeros_R,
        temperature_R=torch.ones(count),
        version_R=zeros_R,
        actions=_ones(count, lengths.completion),
        trainable_S=torch.ones(steps, dtype=torch.bool),
        turn_S=torch.zeros(steps, dtype=torch.int64),
        behaviour_log_probs_S=torch.zeros(steps),
    )


def _ones(count: int, length: int) -> Ragged:
    return Ragged(torch.ones(count * length, dtype=torch.int64), torch.arange(count + 1) * length)
