"""Which work item does what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from grpo_lightning.functional.packing import worst_case_bins


@dataclass  # not frozen: Lightning refuses frozen batches where it converts their tensors to a true precision
class WorkItem:
    """One call of ``training_step``: one micro-batch of one update."""

    stage: Literal["warmup", "grpo"]
    rollout: int
    """Index of the rollout; of the update in the warm-up."""
    update: int
    """Index of the update in its rollout."""
    micro_batch: int
    """Index of the micro-batch in its update."""
    is_last: bool
    """Whether the optimizer steps after it."""

    @property
    def opens_rollout(self) -> bool:
        """Whether the buffer is filled before it."""
        return self.update == 0 and self.micro_batch == 0


@dataclass(frozen=True)
class Schedule:
    """The order of work items: warm-up updates, then rollouts of ``updates_per_rollout`` updates each."""

    warmup_updates: int
    updates_per_rollout: int
    """Updates of one rollout: epochs times updates of an epoch."""
    micro_batches: int
    """Items of an update. Updates that need fewer leave the last ones empty."""
    max_updates: int
    """Optimizer steps of the run, the warm-up's included."""

    def __len__(self) -> int:
        return self.max_updates * self.micro_batches

    def closes_rollout(self, update: int) -> bool:
        """Whether no update of the same rollout follows update ``update``, counted from the start of the run."""
        return (update + 1 - self.warmup_updates) % self.updates_per_rollout == 0 or update < self.warmup_updates

    def is_last_rollout(self, rollout: int) -> bool:
        """Whether the run ends before another rollout begins."""
        return self.warmup_updates + (rollout + 1) * self.updates_per_rollout >= self.max_updates

    def item(self, index: int) -> WorkItem:
        """The work item at ``index``."""
        update, micro_batch = divmod(index, self.micro_batches)
        last = micro_batch == self.micro_batches - 1
        if update < self.warmup_updates:
            return WorkItem("warmup", update, 0, micro_batch, last)
        rollout, inner = divmod(update - self.warmup_updates, self.updates_per_rollout)
        return WorkItem("grpo", rollout, inner, micro_batch, last)


def micro_batches_needed(groups: int, group_size: int, updates: int, ranks: int, row_tokens: int, budget: int) -> int:
    """Micro-batches that an update can need on a rank, whatever the lengths.

    Args:
        groups: Groups of a rollout, all ranks.
        group_size: Rows of a group.
        updates: Updates that an epoch is split into.
        ranks: Number of ranks.
        row_tokens: Tokens that a row can have at most, prompt included.
        budget: Tokens of a micro-batch.
    """
    groups_on_rank = min(-(-groups // ranks), -(-groups // updates))
    return worst_case_bins(groups_on_rank * group_size, row_tokens, budget)
