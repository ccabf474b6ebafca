"""Which plugins a run is made with: the same on all ranks, and kept with what the run leaves."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from typing_extensions import override

from grpo_lightning.errors import ConfigError
from grpo_lightning.registry import registry
from grpo_lightning.rollout import world

KEY = "grpo_lightning_plugins"
log = logging.getLogger(__name__)


class PluginRecord(Callback):
    """Compares the loaded plugins of all ranks, and writes their versions into every checkpoint and to every logger."""

    @override
    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        check_ranks(world.gather((registry().digest(), registry().source.versions())))

    @override
    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        for logger in trainer.loggers:
            logger.log_hyperparams({"plugins": registry().source.versions()})

    @override
    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        checkpoint[KEY] = registry().source.versions()

    @override
    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        if trainer.is_global_zero:
            for line in differences(checkpoint.get(KEY) or {}, registry().source.versions()):
                log.warning("the checkpoint was made with %s", line)


def check_ranks(found: list[tuple[str, dict[str, str]]]) -> None:
    """Check that every rank has loaded the same parts; ``found`` holds each one's digest and versions.

    Raises:
        ConfigError: On every rank, naming the first that differs from rank 0 and in what.
    """
    digest, versions = found[0]
    for rank, (other, theirs) in enumerate(found):
        if other != digest:
            names = [name for name in {**versions, **theirs} if versions.get(name) != theirs.get(name)]
            lines = [
                f"{name} is {versions.get(name, 'not loaded')} there and {theirs.get(name, 'not loaded')} here"
                for name in names
            ]
            reason = f"loaded other plugins than rank 0: {'; '.join(lines) or 'other components of the same versions'}"
            raise ConfigError("plugins", f"rank {rank}", reason, "install the same distributions on every machine")


def differences(made_with: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """One line for each distribution of ``made_with`` that ``now`` lacks or has in another version."""
    return [
        f"{name} {version}, and " + (f"here it is {now[name]}" if name in now else "here it is not loaded")
        for name, version in made_with.items()
        if now.get(name) != version
    ]
