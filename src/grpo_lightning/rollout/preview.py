"""A pass over a whole update without gradient, before its first micro-batch, for parts that must see all of it."""

from __future__ import annotations

from collections.abc import Callable, Collection

import torch
from torch import Tensor

from grpo_lightning.aggregations.base import Aggregation, UpdateRows
from grpo_lightning.functional.seeding import addressed_uniform
from grpo_lightning.policies.base import Policy
from grpo_lightning.rollout import world
from grpo_lightning.rollout.buffer import Buffer, Preview
from grpo_lightning.rollout.scoring import functionals_of_parts
from grpo_lightning.steps import UpdateSteps


def update_steps(
    policy: Policy, buffer: Buffer, update: int, names: Collection[str], address: tuple[int, int]
) -> tuple[UpdateSteps, Tensor, Tensor]:
    """The trainable steps of an update on all ranks; which of this rank's steps they are, and where each of
    those stands among them.

    A collective.

    Args:
        policy: The policy.
        buffer: The rollout on this rank.
        update: Index of the update in the rollout.
        names: Functionals wanted beside the log-probability.
        address: (seed, rollout), of which the draws are a function.
    """
    rollouts, parts = buffer.rollouts, buffer.plans[update].micro_batches
    rows = buffer.rows_of(update)
    values = functionals_of_parts(policy, rollouts, parts, "current", names)
    steps = rollouts.trainable_steps(rows)
    lengths_R = rollouts.lengths_R[rows]
    old_S = buffer.old_log_probs(rows)
    own = {
        "log_probs_S": values["log_prob"][steps],
        "old_log_probs_S": values["log_prob"][steps] if old_S is None else old_S,
        "behaviour_log_probs_S": rollouts.behaviour_log_probs_S[steps],
        "advantages_S": buffer.advantages_S[steps],
        "lengths_R": lengths_R,
        "group_R": rollouts.group_R[rows],
        "member_R": rollouts.member_R[rows],
        **{f"functional:{name}": values[name][steps] for name in names},
    }
    ranks = world.gather(own)
    merged = {name: torch.cat([part[name] for part in ranks]) for name in own}
    order_R, order_S = _sorted_rows(merged["group_R"], merged["member_R"], merged["lengths_R"])
    ordered = {name: each[order_R if name.endswith("_R") else order_S] for name, each in merged.items()}
    lengths_R = ordered["lengths_R"]
    row_S = torch.repeat_interleave(torch.arange(lengths_R.shape[0]), lengths_R)
    position_S = torch.arange(row_S.shape[0]) - (lengths_R.cumsum(0) - lengths_R)[row_S]
    seed, rollout = address
    addresses = [torch.full_like(row_S, rollout), torch.full_like(row_S, update)]
    addresses += [ordered["group_R"][row_S], ordered["member_R"][row_S], position_S]
    whole = UpdateSteps(
        log_probs_S=ordered["log_probs_S"].double(),
        old_log_probs_S=ordered["old_log_probs_S"].double(),
        behaviour_log_probs_S=ordered["behaviour_log_probs_S"].double(),
        advantages_S=ordered["advantages_S"].double(),
        row_S=row_S,
        lengths_R=lengths_R,
        group_R=ordered["group_R"],
        uniform_S=addressed_uniform(seed, "update_plan", torch.stack(addresses, 1)),
        functionals={name: ordered[f"functional:{name}"].double() for name in names},
    )
    start = sum(part["log_probs_S"].shape[0] for part in ranks[: world.rank()])
    return whole, steps, order_S.argsort()[start : start + steps.shape[0]]


def _sorted_rows(group_R: Tensor, member_R: Tensor, lengths_R: Tensor) -> tuple[Tensor, Tensor]:
    """Rows by group and member, and their steps, as indices into what was gathered."""
    order_R = member_R.argsort(stable=True)
    order_R = order_R[group_R[order_R].argsort(stable=True)]
    starts_R = (lengths_R.cumsum(0) - lengths_R)[order_R]
    lengths_R = lengths_R[order_R]
    inside_S = torch.arange(int(lengths_R.sum())) - torch.repeat_interleave(lengths_R.cumsum(0) - lengths_R, lengths_R)
    return order_R, torch.repeat_interleave(starts_R, lengths_R) + inside_S


def preview(
    policy: Policy,
    buffer: Buffer,
    update: int,
    names: Collection[str],
    address: tuple[int, int],
    *,
    plan: Callable[[UpdateSteps], Tensor] | None,
    correct: Callable[[UpdateSteps], Tensor] | None,
    recount: Aggregation | None,
) -> Preview:
    """Decide over a whole update. A collective.

    Args:
        policy: The policy.
        buffer: The rollout on this rank.
        update: Index of the update in the rollout.
        names: Functionals that ``plan`` and ``correct`` ask for.
        address: (seed, rollout).
        plan: The loss's plan.
        correct: The correction's weights.
        recount: Aggregation whose normalisers leave steps of weight 0 out; ``None`` if they count them.
    """
    whole, steps, own = update_steps(policy, buffer, update, names, address)

    def local(values_S: Tensor) -> Tensor:
        result_S = torch.zeros(buffer.rollouts.trainable_S.shape[0], dtype=values_S.dtype)
        result_S[steps] = values_S[own]
        return result_S

    plan_S = None if plan is None else local(plan(whole))
    correction_S = weights_R = None
    if correct is not None:
        weight_S = correct(whole)
        correction_S = local(weight_S)
        if recount is not None:
            rows_S = whole.row_S[own]
            weights_R = _recounted(recount, whole, weight_S)
            weights_R = _on_rank(buffer, weights_R, rows_S, steps)
    return Preview(plan_S, correction_S, weights_R)


def _recounted(aggregation: Aggregation, whole: UpdateSteps, weight_S: Tensor) -> Tensor:
    """[rows of the update]: weight of each remaining step of a row."""
    remaining_R = torch.zeros_like(whole.lengths_R).index_add_(0, whole.row_S, (weight_S != 0).to(torch.int64))
    counted_R = remaining_R > 0
    weights_R = torch.zeros(whole.lengths_R.shape[0], dtype=torch.float64)
    if bool(counted_R.any()):
        weights_R[counted_R] = aggregation.step_weights(UpdateRows(remaining_R[counted_R], whole.group_R[counted_R]))
    return weights_R


def _on_rank(buffer: Buffer, weights_R: Tensor, row_S: Tensor, steps: Tensor) -> Tensor:
    """[R] over this rank's rows."""
    result_R = torch.zeros(len(buffer.rollouts), dtype=torch.float64)
    result_R[buffer.rollouts.row_S[steps]] = weights_R[row_S]
    return result_R
