"""Writing and reading checkpoints: one that is being written never harms the one before."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins import TorchCheckpointIO
from lightning.pytorch import Trainer
from typing_extensions import override

from grpo_lightning.atomic_files import being_written, put_in_place, remove
from grpo_lightning.errors import GRPOError
from grpo_lightning.rollout import world
from grpo_lightning.strategies import sharded_folder

log = logging.getLogger(__name__)


class CheckpointFiles(TorchCheckpointIO):
    """Checkpoints as files of torch, and those that many processes wrote, read by one.

    A new one is written beside the old one and takes its place by a rename when it is on the disk. A process that is killed,
    or a disk that is full, leaves the old one.

    One process of several writes, and the others wait for it: what it cannot write is told by :func:`raise_not_saved`, when
    they have met.
    """

    def __init__(self) -> None:
        self._error: GRPOError | None = None

    @override
    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        if "://" in str(path):  # a store that is no file system
            super().save_checkpoint(checkpoint, path, storage_options)
            return
        place = Path(path)
        part = being_written(place)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            torch.save(checkpoint, part)
            put_in_place(part, place)
        except (OSError, RuntimeError) as error:  # torch's writer tells a full disk as RuntimeError
            told = not_saved(place, error)
            if world.world_size() == 1:
                raise told from error
            log.error("%s", told)
            self._error = told

    def error(self) -> GRPOError | None:
        """What could not be written since the last call."""
        error, self._error = self._error, None
        return error

    @override
    def load_checkpoint(self, path: Any, map_location: Any = "cpu", weights_only: bool | None = None) -> dict[str, Any]:
        if Path(path).is_dir():
            return sharded_folder.read_whole(Path(path))
        return super().load_checkpoint(path, map_location, weights_only)


def not_saved(path: Path, error: Exception) -> GRPOError:
    """What to say when a checkpoint cannot be written; what there is of it goes."""
    part = being_written(path)
    with contextlib.suppress(OSError):  # of what is broken already
        remove(part)
    left = f"the one before is still there: {path}" if path.exists() else "there is none before it"
    return GRPOError(f"the checkpoint {path} cannot be written ({error}); {left}")


def raise_not_saved(trainer: Trainer) -> None:
    """Raise on every process what one could not write; a collective.

    Raises:
        GRPOError: Naming the checkpoint.
    """
    files = trainer.strategy.checkpoint_io
    world.raise_together(files.error() if isinstance(files, CheckpointFiles) else None)


def write_safely(trainer: Trainer) -> None:
    """Let a Trainer write its checkpoints by :class:`CheckpointFiles`, unless it was given a writer of its own."""
    if type(trainer.strategy.checkpoint_io) is TorchCheckpointIO:
        trainer.strategy.checkpoint_io = CheckpointFiles()
