"""Checkpoints of a run: the last state, also of a run that is stopped, and the best one by validation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.strategies import DDPStrategy, SingleDeviceStrategy
from typing_extensions import override

from grpo_lightning.errors import ConfigError, PreemptedError
from grpo_lightning.strategies.checkpoint_files import raise_not_saved


class _Told(ModelCheckpoint):
    """Stops every process when a checkpoint cannot be written."""

    @override
    def _save_checkpoint(self, trainer: Trainer, filepath: str) -> None:
        super()._save_checkpoint(trainer, filepath)
        raise_not_saved(trainer)


class LastCheckpoint(_Told):
    """Keeps ``last.ckpt``: every few updates, at the end, and when a run is stopped.

    Args:
        folder: Where to write it.
        every: Updates between two.
    """

    def __init__(self, folder: Path, *, every: int) -> None:
        super().__init__(
            folder,
            filename="last",
            every_n_train_steps=every,
            save_top_k=1,
            save_on_train_epoch_end=False,
            enable_version_counter=False,
            auto_insert_metric_name=False,
        )
        self._began = False
        """Whether a batch has been begun: before that, a state that is resumed is not wholly there yet."""

    @override
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not self._should_skip_saving_checkpoint(trainer):
            self._save_none_monitor_checkpoint(trainer, self._monitor_candidates(trainer))

    @override
    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self._began = True

    @override
    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        # Sharded strategies save together: where one rank fails alone, the others would wait for it for ever. What stops all
        # of them at one place is no such failure.
        together = isinstance(trainer.strategy, SingleDeviceStrategy | DDPStrategy) or isinstance(
            exception, PreemptedError
        )
        self.save_on_exception = (
            self._began and together and trainer.global_step > 0 and not isinstance(exception, ConfigError)
        )
        super().on_exception(trainer, pl_module, exception)


class BestCheckpoint(_Told):
    """Keeps ``best.ckpt``: the state of the validation at which a metric was highest.

    Args:
        folder: Where to write it.
        monitor: The metric.
    """

    def __init__(self, folder: Path, *, monitor: str) -> None:
        super().__init__(
            folder,
            filename="best",
            monitor=monitor,
            mode="max",
            save_top_k=1,
            save_on_train_epoch_end=False,
            enable_version_counter=False,
            auto_insert_metric_name=False,
        )
