"""Where a run is killed to see whether it goes on as if it had not been."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from grpo_lightning.module import GRPOModule

Event = Literal["update", "sampling", "saving", "evaluating", "evaluated"]
"""Inside an update, its gradient made and the optimizer's step ahead; while the engine begins to sample; while a checkpoint is
written; while, and just after, the validation sets are evaluated."""


@dataclass(frozen=True)
class Point:
    """A moment of a run."""

    name: str
    update: int
    """Updates that are complete."""
    event: Event

    def __str__(self) -> str:
        return f"{self.update}:{self.event}"

    @classmethod
    def parse(cls, text: str) -> Point:
        """The inverse of ``str``."""
        update, event = text.split(":")
        return cls("", int(update), event)  # type: ignore[arg-type]


def points(module: GRPOModule, validate_every: int | None) -> list[Point]:
    """Moments in which a run can be killed that differ in what is in progress; at least one checkpoint is before each.

    Args:
        module: The module of the run.
        validate_every: Updates between validations; ``None`` for none.
    """
    warmup = module.warmup.updates if module.warmup else 0
    a_pass = module.updates_per_rollout
    rollout = a_pass * module.epochs_per_rollout
    found = []
    if warmup > 1:
        found.append(Point("inside the warm-up", 1, "update"))
    if a_pass > 1:
        found.append(Point("inside a pass over a rollout", warmup + rollout + 1, "update"))
    if module.epochs_per_rollout > 1:
        found.append(Point("at the start of the second pass", warmup + rollout + a_pass, "update"))
    if module.epochs_per_rollout > 1 and a_pass > 1:
        found.append(Point("inside the second pass", warmup + rollout + a_pass + 1, "update"))
    found += [
        Point("in the first update of a rollout", warmup + rollout, "update"),
        Point("while the second rollout is sampled", warmup + rollout, "sampling"),
        Point("while a checkpoint is written", warmup + rollout + 1, "saving"),
    ]
    if validate_every:
        found += [
            Point("while validation sets are evaluated", validate_every, "evaluating"),
            Point("after an evaluation", validate_every, "evaluated"),
        ]
    return found


def updates_needed(found: Sequence[Point], module: GRPOModule) -> int:
    """Updates of a run that passes all points, and goes on until another rollout has been trained."""
    rollout = module.updates_per_rollout * module.epochs_per_rollout
    return max(point.update for point in found) + rollout + 1
