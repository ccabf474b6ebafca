"""Passes of the policy without gradient, in micro-batches."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from grpo_lightning.policies.base import Policy, Weights
from grpo_lightning.rollout.micro_batches import micro_batches
from grpo_lightning.types import Rollouts


def score(policy: Policy, rollouts: Rollouts, rows: Sequence[int], budget: int, weights: Weights) -> Tensor:
    """[S]: log-probabilities of the trainable steps of ``rows``; 0 at all other steps.

    Args:
        policy: The policy.
        rollouts: All rows.
        rows: Rows to run.
        budget: Tokens of a micro-batch.
        weights: ``current`` or ``reference``.
    """
    parts = micro_batches(rollouts, rows, budget, shared=policy.shares_prompts)
    return score_parts(policy, rollouts, parts, weights)


def score_parts(policy: Policy, rollouts: Rollouts, parts: Sequence[Tensor], weights: Weights) -> Tensor:
    """[S]: log-probabilities of the trainable steps of the rows in ``parts``; 0 at all other steps.

    Args:
        policy: The policy.
        rollouts: All rows.
        parts: int64 row indices, one tensor a micro-batch; a row that occurs twice keeps its first value.
        weights: ``current`` or ``reference``.
    """
    return functionals_of_parts(policy, rollouts, parts, weights)["log_prob"]


@torch.no_grad()
def functionals_of_parts(
    policy: Policy,
    rollouts: Rollouts,
    parts: Sequence[Tensor],
    weights: Weights = "current",
    names: Collection[str] = (),
) -> dict[str, Tensor]:
    """[S] by name: ``log_prob`` and ``names`` at the trainable steps of the rows in ``parts``; 0 at all other steps.

    Rows that are scored in the company in which they are trained get the same bits: a ratio or a KL of weights that have
    not moved is then exactly 1 or 0.

    Args:
        policy: The policy.
        rollouts: All rows.
        parts: int64 row indices, one tensor a micro-batch; a row that occurs twice keeps its first value.
        weights: ``current`` or ``reference``.
        names: Functionals beside ``log_prob``.
    """
    wanted = sorted({"log_prob", *names})
    extra = [name for name in wanted if name != "log_prob"]
    result: dict[str, Tensor] = {}
    row_S, scored_R = rollouts.row_S, torch.zeros(len(rollouts), dtype=torch.bool)
    with policy.passes():
        for index in parts:
            if bool(scored_R[index].all()):
                continue
            values = policy(rollouts.select(index), functionals=extra, weights=weights)
            steps = rollouts.trainable_steps(index)
            fresh = ~scored_R[row_S[steps]]
            for name in wanted:
                value_S = values[name].cpu()
                if name not in result:
                    result[name] = torch.zeros(rollouts.trainable_S.shape[0], dtype=value_S.dtype)
                result[name][steps[fresh]] = value_S[fresh]
            scored_R[index] = True
    return result or {name: torch.zeros(rollouts.trainable_S.shape[0]) for name in wanted}
