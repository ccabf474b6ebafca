"""Rows in micro-batches of a bounded number of tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from grpo_lightning.functional.packing import pack, pack_sharing
from grpo_lightning.types import Rollouts


def row_costs(rollouts: Rollouts, rows: Sequence[int]) -> list[int]:
    """Tokens that each row puts into the model, its prompt included."""
    prompts, actions = rollouts.prompts.lengths()[rollouts.prompt_R], rollouts.actions.lengths()
    total = (prompts + actions).tolist()
    return [total[row] for row in rows]


def micro_batches(
    rollouts: Rollouts,
    rows: Sequence[int],
    budget: int,
    *,
    shared: bool,
    most: int | None = None,
    whole_groups: bool = False,
) -> list[Tensor]:
    """int64 indices of ``rows`` in micro-batches of at most ``budget`` tokens.

    Args:
        rollouts: All rows.
        rows: The rows that are dealt.
        budget: Tokens of a micro-batch. What does not fit by itself is alone.
        shared: Rows of one prompt run it once: it is counted once, and they stay together where they can.
        most: Micro-batches that there may be; the budget grows until they suffice.
        whole_groups: Groups must be whole.
    """
    if whole_groups:
        groups = torch.unique(rollouts.group_R[list(rows)]).tolist()
        units = [[row for row in rows if int(rollouts.group_R[row]) == group] for group in groups]
        costs = [_group_cost(rollouts, unit, shared) for unit in units]
        bins = within(lambda capacity: pack(costs, capacity), budget, most)
        return [torch.tensor([row for unit in part for row in units[unit]]) for part in bins]
    if shared:
        prompts, sizes = rollouts.prompt_R.tolist(), rollouts.actions.lengths().tolist()
        whole, prompt_sizes = [prompts[row] for row in rows], rollouts.prompts.lengths().tolist()
        own = [sizes[row] for row in rows]
        bins = within(lambda capacity: pack_sharing(whole, prompt_sizes, own, capacity, most), budget, most)
    else:
        costs = row_costs(rollouts, rows)
        bins = within(lambda capacity: pack(costs, capacity), budget, most)
    return [torch.tensor([rows[index] for index in part]) for part in bins]


def _group_cost(rollouts: Rollouts, rows: Sequence[int], shared: bool) -> int:
    if not shared:
        return sum(row_costs(rollouts, rows))
    prompts = torch.unique(rollouts.prompt_R[list(rows)])
    return int(rollouts.prompts.lengths()[prompts].sum() + rollouts.actions.lengths()[list(rows)].sum())


def within(deal: Callable[[int], list[list[int]]], budget: int, most: int | None) -> list[list[int]]:
    """Bins of ``budget`` tokens each, or of as few more as make at most ``most`` bins."""
    bins = deal(budget)
    while most is not None and len(bins) > most:
        budget = budget + max(1, budget // 8)
        bins = deal(budget)
    return bins
