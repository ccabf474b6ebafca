"""What a plan is made for: the settings that decide over memory and that its advice may change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from grpo_lightning.errors import ConfigError
from grpo_lightning.module import GRPOModule

STRATEGIES = ("auto", "ddp", "fsdp2")
"""Strategies whose memory is known."""


@dataclass(frozen=True)
class Choice:
    """The settings of a run that decide what a process holds."""

    processes: int
    strategy: str
    precision: str
    micro_batch_tokens: int
    activation_checkpointing: bool
    lora: Any
    """Adapters of the policy, or ``None``."""
    batch_rows: int | None
    """Rows decoded at once; ``None`` for an engine that does not say."""
    unshard_for_rollout: bool = True
    on_cpu: bool = False
    """Trained on the CPU, whose attention and head go another way than those of a GPU."""

    @property
    def sharded(self) -> bool:
        """Whether weights, gradients and moments are spread over several processes."""
        return self.strategy == "fsdp2" and self.processes > 1

    def but(self, **changed: Any) -> Choice:
        """The same with other settings."""
        return replace(self, **changed)


def choice_of(module: GRPOModule, trainer: Mapping[str, Any], processes: int | None) -> Choice:
    """What a configuration chooses.

    Args:
        module: The module of the configuration.
        trainer: The configuration's settings of the trainer.
        processes: How many there will be; by default as many as the trainer's settings say, where those are numbers.

    Raises:
        ConfigError: If nothing is known of the strategy.
    """
    devices, nodes = trainer.get("devices"), trainer.get("num_nodes") or 1
    if processes is None:
        processes = int(devices) * nodes if isinstance(devices, int) and devices > 0 else nodes
    name, options = _strategy(trainer.get("strategy"))
    if name == "auto" and processes > 1:
        name = "ddp"  # Lightning's own choice
    if name not in STRATEGIES:
        raise ConfigError("trainer.strategy", name, "is none whose memory is known",
                          "plan with one of " + ", ".join(STRATEGIES))  # fmt: skip
    return Choice(
        processes=processes,
        strategy=name,
        precision=str(trainer.get("precision") or "32-true"),
        micro_batch_tokens=module.micro_batch_tokens,
        activation_checkpointing=bool(getattr(module.policy, "activation_checkpointing", False)),
        lora=getattr(module.policy, "lora", None),
        batch_rows=getattr(module.engine, "batch_rows", None),
        unshard_for_rollout=bool(options.get("unshard_for_rollout", True)),
        on_cpu=trainer.get("accelerator") == "cpu",
    )


def _strategy(given: Any) -> tuple[str, Mapping[str, Any]]:
    """Name and options of a strategy as a configuration writes it."""
    if isinstance(given, Mapping):
        last = str(given.get("class_path", "")).rpartition(".")[2]
        return last.removesuffix("Strategy").lower() or "auto", dict(given.get("init_args") or {})
    name = str(given or "auto")
    return "ddp" if name.startswith("ddp_") else name, {}  # ddp_spawn: what a process holds is not another thing
