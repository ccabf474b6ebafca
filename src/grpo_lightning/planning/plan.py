"""A plan: what every process of a run will hold, and how many tokens a step runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from grpo_lightning.module import GRPOModule
from grpo_lightning.planning.choice import Choice
from grpo_lightning.planning.depth import count_deep
from grpo_lightning.planning.passes import Counted
from grpo_lightning.planning.rows import Lengths
from grpo_lightning.planning.sharding import shared_out, total

GIB = 2**30
RESERVED = 0.75 * GIB
"""What a process holds on a GPU beside tensors: its context, and the workspaces of libraries."""
IDLE_SHARE = 0.08
"""Part of a GPU's memory that its allocator is taken to hold without use: tensors come and go in sizes that do not fit."""


@dataclass(frozen=True)
class Plan:
    """What one process of a choice holds."""

    choice: Choice
    lengths: Lengths
    counted: Counted
    phases: Mapping[str, Mapping[str, int]]
    """Bytes by part and phase, on each process."""

    @property
    def peak_phase(self) -> str:
        """The phase that needs most."""
        return max(self.phases, key=lambda name: total(self.phases[name]))

    @property
    def peak_bytes(self) -> int:
        """Most bytes of tensors that are alive at once."""
        return total(self.phases[self.peak_phase])

    def fits(self, memory: float) -> bool:
        """Whether ``memory`` bytes of a GPU suffice."""
        return self.peak_bytes <= usable(memory)


def usable(memory: float) -> float:
    """Bytes that tensors may take of ``memory`` bytes of a GPU."""
    return max(0.0, (memory - RESERVED) * (1 - IDLE_SHARE))


def make_plan(module: GRPOModule, choice: Choice, lengths: Lengths) -> Plan:
    """Count what a process holds in every phase.

    Args:
        module: The module of a configuration, its policy prepared.
        choice: Settings that decide over memory, instead of the module's.
        lengths: What a rollout asks for.

    Raises:
        ConfigError: If the policy cannot be built without its weights.
    """
    counted = count_deep(module, choice, lengths)
    return Plan(choice, lengths, counted, shared_out(counted, choice))
