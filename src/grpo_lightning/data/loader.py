"""The loader of work items."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from grpo_lightning.errors import GRPOError
from grpo_lightning.rollout.schedule import Schedule, WorkItem


class WorkItemLoader:
    """Yields the work items of a run in order, once; its state is one integer.

    The state is the first item of the update in progress: weights have not moved since, so going on there is exact. It has a
    length, so that Lightning does not fetch an item ahead.

    Args:
        schedule: What each item is.
    """

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self._yielded = 0

    def __len__(self) -> int:
        return len(self.schedule)

    def __iter__(self) -> Iterator[WorkItem]:
        if self._yielded >= len(self.schedule):
            # Lightning would begin epoch after empty epoch and never end.
            raise GRPOError(
                f"all {self.schedule.max_updates} updates of the run are done; raise trainer.max_steps to go on"
            )
        return self._items()

    def _items(self) -> Iterator[WorkItem]:
        while self._yielded < len(self.schedule):
            self._yielded += 1
            yield self.schedule.item(self._yielded - 1)

    def state_dict(self) -> dict[str, Any]:
        """Items of finished updates."""
        items = self.schedule.micro_batches
        return {"updates": self._yielded // items}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on after as many updates."""
        self._yielded = int(state["updates"]) * self.schedule.micro_batches
