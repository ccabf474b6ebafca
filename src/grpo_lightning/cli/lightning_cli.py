"""LightningCLI, given a configuration that is already checked, and the run's own loggers and callbacks."""

from __future__ import annotations

import re
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from jsonargparse import ArgumentError
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.accelerators import CPUAccelerator
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI, SaveConfigCallback
from typing_extensions import override

from grpo_lightning.cli.configuration import Configuration, Targets
from grpo_lightning.cli.freed_memory import keep_freed_memory
from grpo_lightning.cli.header import Header
from grpo_lightning.cli.predictions import PredictionWriter
from grpo_lightning.cli.run_folder import RunFolder
from grpo_lightning.cli.run_settings import KEPT, RunSettings
from grpo_lightning.cli.trainer_defaults import TRAINER_DEFAULTS, run_callbacks, run_loggers
from grpo_lightning.errors import ConfigError, GRPOError
from grpo_lightning.registry import registry


class RunCLI(LightningCLI):
    """Builds trainer, module and data module of one command; it runs nothing.

    Args:
        command: ``fit``, ``validate``, ``test`` or ``predict``.
        configuration: A checked configuration.
        targets: The classes to build.
        folder: Where the run writes.
        resumed: Whether ``fit`` continues what the folder holds.
        predictions: Writer of what ``predict`` returns.
        header: Line that says what is run.
        beside: Callbacks beside those of the configuration.

    Raises:
        ConfigError: If Lightning refuses what our checks let pass.
    """

    def __init__(
        self,
        command: str,
        configuration: Configuration,
        targets: Targets,
        folder: RunFolder,
        *,
        resumed: bool = False,
        predictions: PredictionWriter | None = None,
        header: str = "",
        beside: Sequence[Callback] = (),
    ) -> None:
        self.command, self.folder, self.settings, self.resumed = command, folder, configuration.settings, resumed
        self.header, self.beside = header, beside
        self.predictions, self.given = predictions, configuration.config["trainer"]
        kept = {name: configuration.config[name] for name in KEPT if name in configuration.config}
        kept["plugins"] = registry().source.versions()
        sections = {name: configuration.config[name] for name, _ in targets.items()}
        try:
            super().__init__(
                targets.model,
                targets.data,
                trainer_class=targets.trainer,
                save_config_callback=SaveConfigCallback if command == "fit" else None,
                save_config_kwargs={"overwrite": True},
                trainer_defaults=TRAINER_DEFAULTS,
                seed_everything_default=0,
                parser_kwargs={"exit_on_error": False},
                args={"seed_everything": self.settings.seed_everything, **kept, **sections},
                run=False,
                auto_configure_optimizers=False,
            )
        except (ArgumentError, MisconfigurationException, ValueError, TypeError) as error:
            raise our_error(error) from error

    @override
    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        hints = typing.get_type_hints(RunSettings)
        for name in KEPT:
            parser.add_argument(f"--{name}", type=hints[name], default=getattr(RunSettings, name))

    @override
    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        given = self._get(self.config_init, "trainer")
        loggers = run_loggers(self.folder, self.settings, self.command, resumed=self.resumed)
        if isinstance(given.logger, list):
            loggers.extend(given.logger)
        elif given.logger not in (None, True, False):
            loggers.append(given.logger)
        own = run_callbacks(
            self.folder, self.settings, self.command, list(self.datamodule.validation), given.callbacks, registry()
        )
        loads = self.resumed or self.command != "fit"  # then the checkpoint says what it was made with
        own.insert(0, Header(self.header, registry(), {} if loads else self.settings.plugins or {}))
        if self.predictions:
            own.append(self.predictions)
        own.extend(self.beside)
        self.trainer_defaults = {**self.trainer_defaults, "callbacks": own}
        try:
            trainer = super().instantiate_trainer(logger=loggers, default_root_dir=str(self.folder.path), **kwargs)
        except (MisconfigurationException, ValueError, TypeError) as error:
            raise trainer_error(error, self.given) from error
        if isinstance(trainer.accelerator, CPUAccelerator):
            keep_freed_memory()
        return trainer


def trainer_error(error: Exception, given: Mapping[str, Any]) -> ConfigError:
    """What the Trainer's constructor refuses, by the first setting of the user's that its message names."""
    text = " ".join(str(error).split())
    named = {name: place.start() for name in given if (place := re.search(rf"\b{name}\b", text))}
    reason = f"is refused by Lightning: {text.rstrip('.')}"
    if named:
        name = min(named, key=lambda name: named[name])
        return ConfigError(f"trainer.{name}", given[name], reason, "set another value")
    return ConfigError("trainer", dict(given), reason, "change it")


def our_error(error: BaseException) -> GRPOError:
    """The error of this package that caused ``error``, or ``error`` in its form."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, GRPOError):
            return cause
        cause = cause.__cause__ or cause.__context__
    text = " ".join(str(error).split())
    setting, message = "config", text
    if text.startswith('Parser key "'):
        setting, _, message = text.removeprefix('Parser key "').partition('":')
    return ConfigError(setting, None, f"is refused by Lightning: {message.strip()}", "change it")
