"""Passes of the policy without gradient, in micro-batches."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from grpo_lightning.functional.packing import pack
from grpo_lightning.policies.base import Policy, Weights
from grpo_lightning.types import Rollouts


def row_costs(rollouts: Rollouts, rows: Sequence[int]) -> list[int]:
    """Tokens that each row puts into the model, its prompt included."""
    prompts, actions = rollouts.prompts.lengths()[rollouts.prompt_R], rollouts.actions.lengths()
    total = (prompts + actions).tolist()
    return [total[row] for row in rows]


@torch.no_grad()
def score(policy: Policy, rollouts: Rollouts, rows: Sequence[int], budget: int, weights: Weights) -> Tensor:
    """[S] float32: log-probabilities of the trainable steps of ``rows``; 0 at all other steps.

    Args:
        policy: The policy.
        rollouts: All rows.
        rows: Rows to run.
        budget: Tokens of a micro-batch.
        weights: ``current`` or ``reference``.
    """
    result_S: Tensor | None = None
    for part in pack(row_costs(rollouts, rows), budget):
        index = torch.tensor([rows[i] for i in part])
        values = policy(rollouts.select(index), weights=weights)["log_prob"].cpu()
        if result_S is None:
            result_S = torch.zeros(rollouts.trainable_S.shape[0], dtype=values.dtype)
        steps = rollouts.actions.positions(index)
        result_S[steps[rollouts.trainable_S[steps]]] = values
    return torch.zeros(rollouts.trainable_S.shape[0]) if result_S is None else result_S
