"""The first lines of a run."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from lightning.pytorch import Callback, LightningModule, Trainer
from typing_extensions import override

from grpo_lightning._version import __version__
from grpo_lightning.plugin_record import differences
from grpo_lightning.registry import Registry


class Header(Callback):
    """Says what is run, what plugins say about themselves, and which of them failed; once, when all checks have passed.

    Args:
        what: What is run.
        known: The registry.
        made_with: Versions of plugins that the configuration was written with.
    """

    def __init__(self, what: str, known: Registry, made_with: Mapping[str, str]) -> None:
        self.what, self.known, self.made_with = what, known, made_with
        self._said = False

    def _say(self, trainer: Trainer) -> None:
        if self._said or not trainer.is_global_zero:
            return
        self._said = True
        lines = [str(line) for _, line in self.known.source.call_each("grpo_report_header")]
        sys.stdout.write("\n".join([f"grpo_lightning {__version__}: {self.what}", *lines]) + "\n")
        sys.stdout.flush()
        for failure in self.known.source.faults():
            sys.stderr.write(f"warning: {failure}\n")
        for line in differences(self.made_with, self.known.source.versions()):
            sys.stderr.write(f"warning: the configuration was written with {line}\n")

    @override
    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._say(trainer)

    @override
    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._say(trainer)

    @override
    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._say(trainer)

    @override
    def on_predict_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._say(trainer)
