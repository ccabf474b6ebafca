"""Sends the numbers of rollouts and updates to the loggers."""

from __future__ import annotations

from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from typing_extensions import override

from grpo_lightning.callbacks.base import ReportCallback
from grpo_lightning.callbacks.rollout_metrics import rollout_distributions, rollout_metrics
from grpo_lightning.callbacks.wandb_media import histograms, wandb_loggers
from grpo_lightning.reports import RolloutReport, UpdateReport


class MetricLogger(ReportCallback):
    """Logs every metric of docs/metrics.md, one row an update.

    The step is the number of optimizer steps. What a rollout has measured stands in the row of its first update. The
    metrics also reach ``trainer.callback_metrics``, so that Lightning's callbacks can monitor them; wandb also gets
    histograms of the groups' means and variances and of the lengths.
    """

    name = "metric_logger"

    def __init__(self) -> None:
        self._rollout: RolloutReport | None = None

    @override
    def on_rollout(self, trainer: Trainer, pl_module: LightningModule, report: RolloutReport) -> None:
        self._rollout = report

    @override
    def on_update(self, trainer: Trainer, pl_module: LightningModule, report: UpdateReport) -> None:
        metrics = {key: float(value) for key, value in report.metrics.items()}
        rollout, self._rollout = self._rollout, None
        if rollout is not None:
            metrics |= rollout_metrics(rollout)
        # log_dict would take half a millisecond a key, a tenth of a small run's time.
        trainer.callback_metrics.update({key: torch.tensor(value) for key, value in metrics.items()})
        if trainer.is_global_zero:
            self._write(trainer, metrics, rollout, report.update)

    def _write(self, trainer: Trainer, metrics: dict[str, float], rollout: RolloutReport | None, step: int) -> None:
        with_histograms: dict[str, Any] = dict(metrics)
        special = wandb_loggers(trainer)
        if special and rollout is not None:
            with_histograms |= histograms(rollout_distributions(rollout))
        for logger in trainer.loggers:
            logger.log_metrics(with_histograms if logger in special else metrics, step=step)
            logger.save()
