"""State that is committed at updates, and where a checkpoint stands in Lightning's loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from grpo_lightning.policies.base import Policy
from grpo_lightning.rollout import world
from grpo_lightning.rollout.buffer import Buffer, BufferSettings
from grpo_lightning.rollout.redeal import redeal
from grpo_lightning.rollout.submitted import GroupMaker, Submitted

KEY = "grpo_lightning"
FORMAT = 1


@dataclass
class Committed:
    """What decides what comes next, as it was when the last update ended."""

    components: dict[str, dict[str, Any]] = field(default_factory=dict)
    """State of every stateful part by its setting's name."""
    buffer: Buffer | None = None
    """The rollout in progress; ``None`` between rollouts."""
    buffers: list[dict[str, Any]] | None = None
    """The rollout in progress as another number of ranks has saved it, a state a rank; to be dealt to those there are."""
    submitted: Submitted | None = None
    """The next rollout, if it was submitted ahead."""
    submitted_states: list[dict[str, Any]] | None = None
    """That rollout as a checkpoint has it, a state a rank; for whoever can make its groups."""
    reference: dict[str, str] = field(default_factory=dict)
    """``path`` and ``sha256`` of the reference's file, once it is frozen."""
    evaluated: int = 0
    """Updates that the weights had seen at the last validation that ended."""

    def deal(self, settings: BufferSettings, group: GroupMaker, policy: Policy) -> None:
        """Give this rank its share of what a checkpoint holds of all ranks."""
        if self.buffers is not None:
            self.buffer, self.buffers = redeal(self.buffers, settings), None
        if self.submitted_states is not None:
            self.submitted = Submitted.from_state_dicts(self.submitted_states, group, policy)
            self.submitted_states = None

    def state_dict(self) -> dict[str, Any]:
        """Tensors, numbers, texts, lists and dicts, the buffers of all ranks among them. A collective."""
        assert self.buffers is None  # dealt when the run began
        buffers = world.gather(None if self.buffer is None else self.buffer.state_dict())
        submitted = None if self.submitted is None else world.gather(self.submitted.state_dict())
        return {
            "format": FORMAT,
            "components": self.components,
            "buffers": buffers,
            "submitted": submitted,
            "reference": self.reference,
            "evaluated": self.evaluated,
        }

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Any]) -> Committed:
        """The inverse of :meth:`state_dict`, for this rank."""
        buffers = state["buffers"]
        same, inside = len(buffers) == world.world_size(), buffers[0] is not None
        return cls(
            dict(state["components"]),
            Buffer.from_state_dict(buffers[world.rank()]) if same and inside else None,
            buffers if inside and not same else None,
            submitted_states=state.get("submitted"),
            reference=dict(state["reference"]),
            evaluated=int(state.get("evaluated", 0)),
        )


def write_committed(checkpoint: dict[str, Any], committed: Committed, micro_batches: int) -> None:
    """Put what is committed into a checkpoint of Lightning, and let it begin the update in progress again. A collective.

    Args:
        checkpoint: What Lightning saves; changed in place.
        committed: What to put in.
        micro_batches: Micro-batches of an update.
    """
    checkpoint[KEY] = committed.state_dict() | {"micro_batches": micro_batches}
    rewind_to_update(checkpoint, micro_batches)


def read_committed(checkpoint: dict[str, Any], micro_batches: int) -> Committed | None:
    """What a checkpoint of Lightning holds that was committed; ``None`` if nothing was.

    Args:
        checkpoint: What Lightning loads; its loops are told of the micro-batches that an update has now.
        micro_batches: Micro-batches of an update.
    """
    if KEY not in checkpoint:
        return None
    recount_micro_batches(checkpoint, micro_batches)
    return Committed.from_state_dict(checkpoint[KEY])


class Stateful(Protocol):
    """What has a state."""

    def state_dict(self) -> dict[str, Any]:
        """The state; empty if there is none."""


def component_states(parts: Mapping[str, Stateful]) -> dict[str, dict[str, Any]]:
    """State of each part that has one."""
    states = {name: part.state_dict() for name, part in parts.items()}
    return {name: state for name, state in states.items() if state}


def rewind_to_update(checkpoint: dict[str, Any], micro_batches: int) -> None:
    """Let a checkpoint that was saved inside an update begin it again: the weights have not moved since.

    Lightning counts batches. Its counters are set back to what they are when a checkpoint is saved at the end of the update
    before (the last batch processed, its completion not yet counted), so that the optimizer steps after the right batch. A
    checkpoint saved there stays as it is.
    """
    loop = checkpoint["loops"]["fit_loop"]
    progress, state = loop["epoch_loop.batch_progress"], loop["epoch_loop.state_dict"]
    current = progress["current"]
    if current["ready"] == current["processed"] == current["completed"] + 1 and current["ready"] % micro_batches == 0:
        return
    whole = current["processed"] // micro_batches * micro_batches
    behind = current["processed"] - whole
    for counters in (progress["current"], progress["total"]):
        end = counters["processed"] - behind
        counters |= {"ready": end, "started": end, "processed": end, "completed": end - 1}
    # The loader may have handed out the last item of the update already.
    loop["state_dict"]["combined_loader"] = [{"updates": whole // micro_batches}]
    # Lightning counts the step of that batch again when it restarts there.
    state["_batches_that_stepped"] = checkpoint["global_step"] - 1


def recount_micro_batches(checkpoint: dict[str, Any], micro_batches: int) -> None:
    """Let a checkpoint count the micro-batches that an update has now: with other ranks, it may need more or fewer.

    Args:
        checkpoint: What was saved, with the micro-batches of an update then; changed in place.
        micro_batches: Those of an update now.
    """
    before = checkpoint[KEY].get("micro_batches", micro_batches)
    if before == micro_batches:
        return
    progress = checkpoint["loops"]["fit_loop"]["epoch_loop.batch_progress"]
    for counters in (progress["current"], progress["total"]):
        behind = counters["processed"] - counters["completed"]
        end = counters["processed"] // before * micro_batches
        counters |= {"ready": end, "started": end, "processed": end, "completed": end - behind}
