"""The level of a curriculum in the log."""

from __future__ import annotations

from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from typing_extensions import override

from grpo_lightning.callbacks.base import ReportCallback
from grpo_lightning.reports import RolloutReport, UpdateReport


class CurriculumLevel(ReportCallback):
    """Logs the level that the curriculum has reached.

    ``curriculum/level`` is the level of the next rollout's prompts, from 0, and ``curriculum/mean`` the moving mean that
    decides about it. They stand at the first update of each rollout, and in ``trainer.callback_metrics``. Of a curriculum
    without levels nothing is logged.
    """

    name = "curriculum_level"

    def __init__(self) -> None:
        self._metrics: dict[str, float] = {}

    @override
    def on_rollout(self, trainer: Trainer, pl_module: LightningModule, report: RolloutReport) -> None:
        curriculum: Any = getattr(getattr(trainer, "datamodule", None), "curriculum", None)
        found = {"level": getattr(curriculum, "level", None), "mean": getattr(curriculum, "mean", None)}
        self._metrics = {
            f"curriculum/{key}": float(each) for key, each in found.items() if isinstance(each, int | float)
        }

    @override
    def on_update(self, trainer: Trainer, pl_module: LightningModule, report: UpdateReport) -> None:
        metrics, self._metrics = self._metrics, {}
        if not metrics:
            return
        trainer.callback_metrics.update({key: torch.tensor(value) for key, value in metrics.items()})
        if trainer.is_global_zero:
            for logger in trainer.loggers:
                logger.log_metrics(metrics, step=report.update)
                logger.save()
