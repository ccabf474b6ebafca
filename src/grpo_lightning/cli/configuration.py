"""From one mapping to a configuration that is known to be right."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from grpo_lightning.cli.checks import Checker
from grpo_lightning.cli.resolve import Resolver
from grpo_lightning.cli.run_settings import RunSettings, check_command
from grpo_lightning.errors import ConfigError, near_matches
from grpo_lightning.registry import Registry


@dataclass(frozen=True)
class Targets:
    """The classes that are configured."""

    trainer: Any
    model: Any
    data: Any

    def items(self) -> list[tuple[str, Any]]:
        """Section and class, in the order of the configuration."""
        return [("trainer", self.trainer), ("model", self.model), ("data", self.data)]


@dataclass(frozen=True)
class Configuration:
    """A checked run."""

    config: dict[str, Any]
    """Every component in full, as LightningCLI takes it."""
    settings: RunSettings


def configure(raw: Mapping[str, Any], command: str, targets: Targets, registry: Registry) -> Configuration:
    """Resolve and check a configuration, after the hook ``grpo_configure`` has seen it.

    Raises:
        ConfigError: The first fault, named by its path.
    """
    resolver = Resolver(registry)
    config = _sections(raw, targets)
    _check_trainer(config["trainer"], command)
    for name, target in targets.items():
        config[name] = resolver.parameters(config[name], target, name)
    registry.source.call_each("grpo_configure", config=config)
    for name, target in targets.items():  # a hook may have written short names, and wrong ones
        config[name] = resolver.parameters(config[name], target, name)
    checker = Checker(resolver)
    own = {item.name: config[item.name] for item in fields(RunSettings) if item.name in config}
    settings = RunSettings(**checker.parameters(own, RunSettings, ""))
    check_command(settings, command)
    for name, target in targets.items():
        checker.parameters(config[name], target, name)
    return Configuration(config, settings)


def _sections(raw: Mapping[str, Any], targets: Targets) -> dict[str, Any]:
    sections = [name for name, _ in targets.items()]
    known = {*sections, *(item.name for item in fields(RunSettings))}
    for name, value in raw.items():
        if name not in known:
            raise ConfigError(name, value, "is no setting", near_matches(name, known))
    config = copy.deepcopy(dict(raw))
    for name in sections:
        config[name] = config.get(name) or {}
        if not isinstance(config[name], dict):
            raise ConfigError(name, config[name], "is no group of settings", f"write --{name}.setting VALUE")
    return config


def _check_trainer(trainer: Mapping[str, Any], command: str) -> None:
    """Refuse what the loop of rollouts decides itself; Lightning's defaults, which a saved run holds, pass."""
    if trainer.get("accumulate_grad_batches") not in (None, 1):
        raise ConfigError("trainer.accumulate_grad_batches", trainer["accumulate_grad_batches"],
                          "cannot be set by hand", "set model.micro_batch_tokens, from which it follows")  # fmt: skip
    if trainer.get("max_epochs") not in (None, -1):
        raise ConfigError("trainer.max_epochs", trainer["max_epochs"], "has no meaning: a run counts updates",
                          "set trainer.max_steps")  # fmt: skip
    if trainer.get("default_root_dir") is not None:
        raise ConfigError("trainer.default_root_dir", trainer["default_root_dir"], "is not used",
                          "set runs_folder or run_folder")  # fmt: skip
    steps = trainer.get("max_steps")
    if command == "fit" and (steps is None or (isinstance(steps, int) and steps < 1)):
        raise ConfigError("trainer.max_steps", steps, "is no number of updates", "set how many to train, 1 or more")
