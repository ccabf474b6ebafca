"""State that is committed at updates, and where a checkpoint stands in Lightning's loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from grpo_lightning.component import Component
from grpo_lightning.rollout import world
from grpo_lightning.rollout.buffer import Buffer

KEY = "grpo_lightning"
FORMAT = 1


@dataclass
class Committed:
    """What decides what comes next, as it was when the last update ended."""

    components: dict[str, dict[str, Any]] = field(default_factory=dict)
    """State of every stateful part by its setting's name."""
    buffer: Buffer | None = None
    """The rollout in progress; ``None`` between rollouts."""
    reference: dict[str, str] = field(default_factory=dict)
    """``path`` and ``sha256`` of the reference's file, once it is frozen."""

    def state_dict(self) -> dict[str, Any]:
        """Tensors, numbers, texts, lists and dicts, the buffers of all ranks among them. A collective."""
        buffers = world.gather(None if self.buffer is None else self.buffer.state_dict())
        return {
            "format": FORMAT,
            "components": self.components,
            "buffers": buffers,
            "reference": self.reference,
        }

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Any]) -> Committed:
        """The inverse of :meth:`state_dict`, for this rank."""
        buffer = state["buffers"][world.rank()] if len(state["buffers"]) == world.world_size() else None
        return cls(
            dict(state["components"]), None if buffer is None else Buffer.from_state_dict(buffer), dict(state["reference"])
        )


def component_states(parts: Mapping[str, Component]) -> dict[str, dict[str, Any]]:
    """State of each part that has one."""
    states = {name: part.state_dict() for name, part in parts.items()}
    return {name: state for name, state in states.items() if state}


def rewind_to_update(checkpoint: dict[str, Any], micro_batches: int) -> None:
    """Let a checkpoint that was saved inside an update begin it again: the weights have not moved since.

    Lightning counts batches. Its counters are set back to the last multiple of ``micro_batches``, so that the optimizer
    steps after the right one. A checkpoint saved when an update ended stays as it is.
    """
    progress = checkpoint["loops"]["fit_loop"]["epoch_loop.batch_progress"]
    for counters in (progress["current"], progress["total"]):
        if counters["ready"] != counters["processed"] or counters["processed"] % micro_batches:
            whole = counters["processed"] // micro_batches * micro_batches
            for name in ("ready", "started", "processed", "completed"):
                if name in counters:
                    counters[name] = whole
