"""Where a run keeps its files."""

from __future__ import annotations

from pathlib import Path

from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger, WandbLogger


def run_folder(trainer: Trainer) -> Path:
    """The folder of the first logger, or the trainer's root folder where there is none.

    Equal to ``trainer.log_dir``, but without its collective call: rank zero may ask alone.
    """
    for logger in trainer.loggers[:1]:
        folder = getattr(logger, "log_dir", None) or logger.save_dir
        if folder:
            return Path(folder)
    return Path(trainer.default_root_dir)


def samples_file(trainer: Trainer, stage: str) -> Path:
    """The file of the samples of ``train``, ``validation`` or ``test``."""
    return run_folder(trainer) / "samples" / f"{stage}.jsonl"


def profile_file(trainer: Trainer) -> Path:
    """The table of phases that ``fit --profile`` writes."""
    return run_folder(trainer) / "profile.md"


def run_files(trainer: Trainer) -> dict[str, str]:
    """What a run has left on the disk, by a name for people; only what is there."""
    found = {"run folder": run_folder(trainer)}
    for logger in trainer.loggers:
        if isinstance(logger, CSVLogger):
            found["metrics"] = Path(logger.log_dir) / "metrics.csv"
        elif isinstance(logger, WandbLogger) and getattr(logger.experiment, "dir", None):
            found["wandb"] = Path(logger.experiment.dir).parent
    found["samples"] = samples_file(trainer, "train").parent
    found["profile"] = profile_file(trainer)
    for checkpoint in trainer.checkpoint_callbacks:
        if isinstance(checkpoint, ModelCheckpoint):
            # Without a monitor, Lightning calls the newest checkpoint the best.
            newest = checkpoint.last_model_path or ("" if checkpoint.monitor else checkpoint.best_model_path)
            if checkpoint.monitor and checkpoint.best_model_path:
                found["best checkpoint"] = Path(checkpoint.best_model_path)
            if newest:
                found["last checkpoint"] = Path(newest)
    return {name: str(path) for name, path in found.items() if path.exists()}
