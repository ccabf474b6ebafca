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


def score(policy: Policy, rollouts: Rollouts, rows: Sequence[int], budget: int, weights: Weights) -> Tensor:
    """[S]: log-probabilities of the trainable steps of ``rows``; 0 at all other steps.

    Args:
        policy: The policy.
        rollouts: All rows.
        rows: Rows to run.
        budget: Tokens of a micro-batch.
        weights: ``current`` or ``reference``.
    """
    parts = [torch.tensor([rows[i] for i in part]) for part in pack(row_costs(rollouts, rows), budget)]
    return score_parts(policy, rollouts, parts, weights)


@torch.no_grad()
def score_parts(policy: Policy, rollouts: Rollouts, parts: Sequence[Tensor], weights: Weights) -> Tensor:
    """[S]: log-probabilities of the trainable steps of the rows in ``parts``; 0 at all other steps.

    Rows that are scored in the company in which they are trained get the same bits: a ratio or a KL of weights that have
    not moved is then exactly 1 or 0.

    Args:
        policy: The policy.
        rollouts: All rows.
        parts: int64 row indices, one tensor a micro-batch; a row that occurs twice keeps its first value.
        weights: ``current`` or ``reference``.
    """
    result_S: Tensor | None = None
    row_S, scored_R = rollouts.row_S, torch.zeros(len(rollouts), dtype=torch.bool)
    for index in parts:
        if bool(scored_R[index].all()):
            continue
        values = policy(rollouts.select(index), weights=weights)["log_prob"].cpu()
        if result_S is None:
            result_S = torch.zeros(rollouts.trainable_S.shape[0], dtype=values.dtype)
        steps = rollouts.actions.positions(index)
        steps = steps[rollouts.trainable_S[steps]]
        fresh = ~scored_R[row_S[steps]]
        result_S[steps[fresh]] = values[fresh]
        scored_R[index] = True
    return torch.zeros(rollouts.trainable_S.shape[0]) if result_S is None else result_S
