"""What every run's Trainer has: settings, loggers and callbacks."""

from __future__ import annotations

import os
import secrets
from typing import Any

from lightning.pytorch import Callback
from lightning.pytorch.callbacks import EarlyStopping
from lightning.pytorch.loggers import Logger, WandbLogger

from grpo_lightning.callbacks.phase_profile import PhaseProfile
from grpo_lightning.cli.checkpoints import BestCheckpoint, LastCheckpoint
from grpo_lightning.cli.csv_log import ContinuedCSVLogger
from grpo_lightning.cli.run_folder import RunFolder
from grpo_lightning.cli.run_settings import EarlyStoppingSettings, RunSettings, WandbSettings
from grpo_lightning.errors import ConfigError
from grpo_lightning.registry import Registry

TRAINER_DEFAULTS: dict[str, Any] = {
    "use_distributed_sampler": False,  # the collector splits prompts over ranks
    "inference_mode": False,  # inference tensors cannot be kept for the backward pass
    "num_sanity_val_steps": 0,
    "max_epochs": -1,  # runs count updates; this also keeps Lightning from building loaders early
    "enable_model_summary": False,
    "enable_progress_bar": False,
    "log_every_n_steps": 1,
}
OWN_CALLBACKS = ("metric_logger", "progress_line", "sample_log", "run_report")
"""Names of the callbacks that every run has unless the user configures one of the same class."""


def run_loggers(folder: RunFolder, settings: RunSettings, command: str, *, resumed: bool) -> list[Logger]:
    """CSV always: ``metrics.csv`` in the run's folder, or in a folder of the command below it; wandb if asked for."""
    place = folder.path if command == "fit" else folder.path / command
    loggers: list[Logger] = [ContinuedCSVLogger(place, keep=resumed)]
    if settings.wandb:
        wandb = settings.wandb if isinstance(settings.wandb, WandbSettings) else WandbSettings()
        loggers.append(
            WandbLogger(
                project=wandb.project,
                name=wandb.name or folder.path.name,
                save_dir=str(folder.path),
                version=_wandb_id(folder),
                offline=_is_offline() if wandb.offline is None else wandb.offline,
            )
        )
    return loggers


def _is_offline() -> bool:
    mode = os.environ.get("WANDB_MODE")
    return mode != "online" if mode else "WANDB_API_KEY" not in os.environ


def _wandb_id(folder: RunFolder) -> str:
    """The id of the run at wandb, kept in its folder so that a resumed run continues its curves."""
    kept = folder.path / "wandb_id"
    if not kept.exists():
        kept.write_text(secrets.token_hex(4))
    return kept.read_text().strip()


def run_callbacks(
    folder: RunFolder, settings: RunSettings, command: str, validation: list[str], given: Any, registry: Registry
) -> list[Callback]:
    """The callbacks of a command: ours, those that ``given`` replaces left out, and for ``fit`` what saves and stops.

    Raises:
        ConfigError: If early stopping has nothing to watch.
    """
    replaced = {type(item) for item in (given if isinstance(given, list) else [given])}
    classes = [registry.resolve("callback", name) for name in OWN_CALLBACKS]
    callbacks: list[Callback] = [each() for each in classes if each not in replaced]
    if command != "fit":
        return callbacks
    if settings.profile:
        callbacks.insert(0, PhaseProfile())  # before the report, which says where its table is
    # The reward, not the accuracy: it moves where answers get better and none is right yet.
    reward = f"validation/{validation[0]}/reward" if validation else None
    callbacks.append(LastCheckpoint(folder.checkpoints, every=settings.save_every))
    if reward:
        callbacks.append(BestCheckpoint(folder.checkpoints, monitor=reward))
    if settings.early_stopping:
        callbacks.append(_early_stopping(settings.early_stopping, reward))
    return callbacks


def _early_stopping(wanted: EarlyStoppingSettings, reward: str | None) -> EarlyStopping:
    monitor = wanted.monitor or reward
    if monitor is None:
        raise ConfigError("early_stopping", None, "has no metric to watch", "add data.validation, or set monitor")
    return EarlyStopping(
        monitor=monitor,
        patience=wanted.patience,
        mode=wanted.mode,
        min_delta=wanted.min_delta,
        check_on_train_epoch_end=False,
    )
