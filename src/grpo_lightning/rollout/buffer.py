"""The buffer: a rollout's rows, dealt into updates and micro-batches, with the normalisers of each update."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from grpo_lightning.aggregations.base import Aggregation, UpdateRows
from grpo_lightning.functional.seeding import addressed_permutation
from grpo_lightning.rollout.collector import Collected
from grpo_lightning.rollout.micro_batches import micro_batches
from grpo_lightning.types import FinishReason, Rollouts


@dataclass(frozen=True)
class MicroBatch:
    """Rows of one forward and backward pass. S counts their trainable steps only."""

    rollouts: Rollouts
    weights_R: Tensor
    """[R] float64: weight of each trainable step of the row; the update's normaliser is in it."""
    advantages_S: Tensor
    """[S] float64."""
    old_log_probs_S: Tensor | None
    """[S]; ``None`` where the policy has not moved since it sampled: then they are the current ones."""
    reference_log_probs_S: Tensor | None
    """[S]; ``None`` where no KL term needs them."""
    rewards_R: Tensor | None = None
    """[R] float64: composed rewards."""
    plan_S: Tensor | None = None
    """[S] what a loss of scope ``update`` planned."""
    correction_S: Tensor | None = None
    """[S] weights of a correction that saw the whole update."""
    policy_weights_R: Tensor | None = None
    """[R] float64: weight of each step in the policy term, where a correction takes steps out of its normaliser; the KL and
    the entropy bonus keep ``weights_R``. ``None`` where all are one."""
    old_version: int = 0
    """Updates that the weights had seen when the rollout's updates began."""
    version: int = 0
    """Updates that the current weights have seen."""
    keep: Callable[[Tensor], None] | None = None
    """Told the log-probabilities that the policy gives, [S], where they are the old ones of updates to come."""


@dataclass(frozen=True)
class Preview:
    """What was decided over a whole update. S counts all steps of this rank's rows, 0 where they are not in the update."""

    plan_S: Tensor | None
    """[S] the loss's plan, for losses of scope ``update``."""
    correction_S: Tensor | None
    """[S] weights of a correction that sees the whole update."""
    weights_R: Tensor | None
    """[R] weight of each step of this rank's rows in the policy term, where the correction takes steps out of its
    normaliser."""


@dataclass(frozen=True)
class UpdatePlan:
    """One update, as far as it is this rank's."""

    micro_batches: list[Tensor]
    """int64 row indices, one tensor a micro-batch."""
    weights_R: Tensor
    """[R] float64 over all rows of this rank; 0 for rows that are not in the update."""


@dataclass(frozen=True)
class BufferSettings:
    """How a rollout is dealt."""

    aggregation: Aggregation
    epochs: int
    updates: int
    """Updates of an epoch."""
    budget: int
    """Tokens of a micro-batch."""
    micro_batches: int
    """Micro-batches that an update may have."""
    whole_groups: bool
    """Groups must be whole in a micro-batch."""
    run_all: bool
    """Some term needs rows of advantage 0 too."""
    mask_truncated: bool
    seed: int
    shares_prompts: bool = False
    """Rows of one prompt run it once."""


class Buffer:
    """A rollout's rows on this rank and the plan of its updates. Once it is filled, only old log-probabilities are added: those
    that the first update finds.

    Args:
        rollouts: This rank's rows.
        advantages_S: [S] float64 over all steps.
        plans: The updates in order.
        old_log_probs_S: [S] over all steps, NaN for rows that the first update has yet to run, or ``None`` for one update.
        reference_log_probs_S: [S] over all steps, or ``None``.
        rewards_R: [R] float64: composed rewards.
        version: Updates that the weights had seen when the rollout's updates began.
    """

    def __init__(
        self,
        rollouts: Rollouts,
        advantages_S: Tensor,
        plans: Sequence[UpdatePlan],
        old_log_probs_S: Tensor | None = None,
        reference_log_probs_S: Tensor | None = None,
        rewards_R: Tensor | None = None,
        version: int = 0,
    ) -> None:
        self.rollouts, self.advantages_S, self.plans = rollouts, advantages_S, list(plans)
        self.old_log_probs_S, self.reference_log_probs_S = old_log_probs_S, reference_log_probs_S
        self.rewards_R, self.version = rewards_R, version

    def micro_batch(self, update: int, index: int, seen: Preview | None = None) -> MicroBatch | None:
        """Micro-batch ``index`` of an update; ``None`` where the update needs fewer.

        Args:
            update: Index of the update in the rollout.
            index: Index of the micro-batch in the update.
            seen: What was decided over the whole update, where that was asked for.
        """
        plan = self.plans[update]
        if index >= len(plan.micro_batches):
            return None
        rows = plan.micro_batches[index]
        steps, old_S = self.rollouts.trainable_steps(rows), self.old_log_probs(rows)
        seen = seen or Preview(None, None, None)
        return MicroBatch(
            rollouts=self.rollouts.select(rows),
            weights_R=plan.weights_R[rows],
            advantages_S=self.advantages_S[steps],
            old_log_probs_S=old_S,
            reference_log_probs_S=None if self.reference_log_probs_S is None else self.reference_log_probs_S[steps],
            rewards_R=None if self.rewards_R is None else self.rewards_R[rows],
            plan_S=None if seen.plan_S is None else seen.plan_S[steps],
            correction_S=None if seen.correction_S is None else seen.correction_S[steps],
            policy_weights_R=None if seen.weights_R is None else seen.weights_R[rows],
            old_version=self.version,
            version=self.version + update,
            keep=partial(self._keep, steps) if old_S is None and self.old_log_probs_S is not None else None,
        )

    def old_log_probs(self, rows: Tensor) -> Tensor | None:
        """[trainable steps of ``rows``]: ``None`` where the weights have not moved since they sampled."""
        if self.old_log_probs_S is None:
            return None
        old_S = self.old_log_probs_S[self.rollouts.trainable_steps(rows)]
        return None if bool(old_S.isnan().any()) else old_S

    def _keep(self, steps: Tensor, log_probs_S: Tensor) -> None:
        assert self.old_log_probs_S is not None
        self.old_log_probs_S[steps] = log_probs_S.to(self.old_log_probs_S)

    def rows_of(self, update: int) -> Tensor:
        """int64 rows that an update runs, ascending."""
        rows = sorted({row for part in self.plans[update].micro_batches for row in part.tolist()})
        return torch.tensor(rows, dtype=torch.int64)

    def run_rows(self) -> list[int]:
        """Rows that are in some micro-batch, ascending."""
        return sorted({row for rows in self.parts() for row in rows.tolist()})

    def parts(self) -> list[Tensor]:
        """int64 row indices of every micro-batch of every update, in order."""
        return [rows for plan in self.plans for rows in plan.micro_batches]

    def state_dict(self) -> dict[str, Any]:
        """Tensors only."""
        return {
            "rollouts": self.rollouts.state_dict(),
            "advantages_S": self.advantages_S,
            "plans": [{"micro_batches": plan.micro_batches, "weights_R": plan.weights_R} for plan in self.plans],
            "old_log_probs_S": self.old_log_probs_S,
            "reference_log_probs_S": self.reference_log_probs_S,
            "rewards_R": self.rewards_R,
            "version": self.version,
        }

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Any]) -> Buffer:
        """The inverse of :meth:`state_dict`."""
        return cls(
            Rollouts.from_state_dict(state["rollouts"]),
            state["advantages_S"],
            [UpdatePlan(**plan) for plan in state["plans"]],
            state["old_log_probs_S"],
            state["reference_log_probs_S"],
            state["rewards_R"],
            state["version"],
        )


def fill(collected: Collected, settings: BufferSettings, rollout: int, version: int = 0) -> Buffer:
    """Deal a rollout into updates, groups whole and equally on all ranks, and those into micro-batches.

    A normaliser counts the kept rows of the update on all ranks that have a trainable step and are not masked as
    truncated; those of advantage 0 are counted, and run only where ``run_all``.
    """
    table, rollouts = collected.gathered.table, collected.rollouts
    counted_R = collected.keep_R & (table.lengths_R > 0)
    if settings.mask_truncated:
        counted_R &= table.finish_R != int(FinishReason.LENGTH)
    groups = torch.unique(table.group_R[counted_R])
    run_R = counted_R & ((collected.advantages_R != 0) | settings.run_all)
    own = collected.gathered.own
    plans = []
    for epoch in range(settings.epochs):
        order = addressed_permutation(settings.seed, "updates", (rollout, epoch), len(groups))
        for part in torch.tensor_split(groups[order], settings.updates):
            in_update_R = counted_R & torch.isin(table.group_R, part)
            weights_R = torch.zeros(len(table), dtype=torch.float64)
            if bool(in_update_R.any()):
                rows = UpdateRows(table.lengths_R[in_update_R], table.group_R[in_update_R])
                weights_R[in_update_R] = settings.aggregation.step_weights(rows)
            local = (in_update_R & run_R)[own].nonzero().squeeze(1)
            parts = micro_batches(
                rollouts,
                local.tolist(),
                settings.budget,
                shared=settings.shares_prompts,
                most=settings.micro_batches,
                whole_groups=settings.whole_groups,
            )
            plans.append(UpdatePlan(parts, weights_R[own]))
    return Buffer(rollouts, collected.advantages_S, plans, rewards_R=table.rewards_R[own], version=version)


def run_mask(collected: Collected, buffer: Buffer) -> Tensor:
    """[R] bool over this rank's rows: those that go through the policy."""
    mask = torch.zeros(len(collected.rollouts), dtype=torch.bool)
    mask[buffer.run_rows()] = True
    return mask
