"""``fit``, ``validate``, ``test`` and ``predict``."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import yaml
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.loggers import WandbLogger
from lightning.pytorch.utilities.exceptions import SIGTERMException

from grpo_lightning.cli.arguments import parse_arguments
from grpo_lightning.cli.configuration import Configuration, Targets, configure
from grpo_lightning.cli.help_page import help_page
from grpo_lightning.cli.lightning_cli import RunCLI, our_error
from grpo_lightning.cli.locate import Place, Plan, new_place, plan
from grpo_lightning.cli.noise import quiet_lightning
from grpo_lightning.cli.predictions import PredictionWriter
from grpo_lightning.cli.run_folder import ENVIRONMENT, inherited_run_folder
from grpo_lightning.cli.slurm import requeue
from grpo_lightning.data.datamodule import GRPODataModule
from grpo_lightning.errors import ConfigError, PreemptedError
from grpo_lightning.module import GRPOModule
from grpo_lightning.registry import registry
from grpo_lightning.strategies.sharded_folder import read_rest

TARGETS = Targets(Trainer, GRPOModule, GRPODataModule)


def run(command: str, words: Sequence[str], targets: Targets = TARGETS, callbacks: Sequence[Callback] = ()) -> int:
    """Run one command that needs a Trainer.

    Args:
        command: ``fit``, ``validate``, ``test`` or ``predict``.
        words: What follows it on the command line.
        targets: The classes to configure.
        callbacks: Callbacks of ``fit`` beside those that it is configured with.

    Returns:
        The exit code: 0, or 128 and the number of the signal that stopped the run.

    Raises:
        GRPOError: Whatever is wrong, to be told in one line.
    """
    arguments = parse_arguments(words)
    if arguments.help:
        sys.stdout.write(help_page(command, targets, registry()))
        return 0
    quiet_lightning()
    for path in arguments.configs:
        # A reward in a file beside the configuration is found from wherever the command is run.
        sys.path.append(str(path.absolute().parent))
    planned = plan(command, arguments)
    configuration = configure(planned.config, command, targets, registry())
    if arguments.print_config:
        sys.stdout.write(yaml.safe_dump(configuration.config, sort_keys=False, allow_unicode=True))
        return 0
    if command == "fit":
        return _fit(planned, configuration, targets, callbacks)
    return _evaluate(command, planned, configuration, targets)


def _fit(planned: Plan, configuration: Configuration, targets: Targets, callbacks: Sequence[Callback]) -> int:
    if planned.checkpoint is not None:
        _check_unfinished(planned.checkpoint, configuration)
    place = Place(planned.folder, new=False) if planned.folder else new_place(configuration.settings)
    os.environ[ENVIRONMENT] = str(place.folder.path.absolute())
    try:
        resumed = planned.folder is not None
        header = f"run {place.folder.path}" + (f", continued from {planned.checkpoint}" if planned.checkpoint else "")
        cli = RunCLI("fit", configuration, targets, place.folder, resumed=resumed, header=header, beside=callbacks)
        return _call(cli, "fit", planned.checkpoint)
    except (ConfigError, MisconfigurationException):
        # A run that never began leaves nothing behind.
        if place.new and not place.folder.checkpoints.exists():
            shutil.rmtree(place.folder.path, ignore_errors=True)
        raise
    finally:
        os.environ.pop(ENVIRONMENT, None)


def _check_unfinished(checkpoint: Path, configuration: Configuration) -> None:
    """Refuse to go on with a run that has taken all its updates, before any of its files is touched."""
    if checkpoint.is_dir():
        taken = read_rest(checkpoint)["global_step"]
    else:
        taken = torch.load(checkpoint, map_location="cpu", weights_only=True, mmap=True)["global_step"]
    most = (configuration.config.get("trainer") or {}).get("max_steps")
    if isinstance(most, int) and 0 < most <= taken:
        raise ConfigError("trainer.max_steps", most, f"is reached: {checkpoint} has taken {taken} updates",
                          "raise it to go on")  # fmt: skip


def _evaluate(command: str, planned: Plan, configuration: Configuration, targets: Targets) -> int:
    assert planned.folder is not None
    writer = None
    if command == "predict":
        output = configuration.settings.output
        writer = PredictionWriter(Path(output) if output else planned.folder.path / "predictions.jsonl")
    header = f"{command} {planned.checkpoint}"
    cli = RunCLI(command, configuration, targets, planned.folder, predictions=writer, header=header)
    code = _call(cli, command, planned.checkpoint)
    if writer is not None and code == 0 and cli.trainer.is_global_zero:
        sys.stdout.write(f"predictions {writer.path}\n")
    return code


def _call(cli: RunCLI, command: str, checkpoint: Path | None) -> int:
    extra: dict[str, Any] = {"fit": {}, "predict": {"return_predictions": False}}.get(command, {"verbose": False})
    with _interrupts_restored():
        try:
            path = str(checkpoint) if checkpoint else None
            getattr(cli.trainer, command)(cli.model, datamodule=cli.datamodule, ckpt_path=path, **extra)
        except MisconfigurationException as error:
            raise our_error(error) from error
        except PreemptedError as stopped:
            if cli.trainer.is_global_zero:
                _say_stopped(cli, command)
                requeue(stopped.signum)
            elif inherited_run_folder():
                return 0  # Lightning kills the process that started this one if this one seems to have failed
            return 128 + stopped.signum
        except SystemExit as leaving:  # how Lightning ends after Ctrl-C, and after SIGTERM
            if not cli.trainer.interrupted:
                raise
            if cli.trainer.is_global_zero:
                _say_stopped(cli, command)
            return 128 + (signal.SIGTERM if isinstance(leaving, SIGTERMException) else signal.SIGINT)
        finally:
            # A wandb run that stays open would take in the next one of this process.
            for logger in cli.trainer.loggers:
                if isinstance(logger, WandbLogger):
                    logger.experiment.finish()
    return 0


def _say_stopped(cli: RunCLI, command: str) -> None:
    if command == "fit" and cli.folder.last.exists():
        again = f"saved {cli.folder.last}; resume with: python -m grpo_lightning fit --resume {cli.folder.path}"
    else:
        again = "nothing is saved"
    sys.stderr.write(f"\nstopped; {again}\n")


@contextmanager
def _interrupts_restored() -> Iterator[None]:
    """Give Ctrl-C back its meaning: Lightning ignores it from the first one on."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
