"""A Lightning callback that is told of rollouts, updates and evaluations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from lightning.pytorch import Callback, LightningModule, Trainer
from typing_extensions import override

from grpo_lightning import profiling
from grpo_lightning.reports import EvaluationReport, RolloutReport, UpdateReport


class ReportCallback(Callback):
    """Passes the reports of a run to three methods; a subclass overrides those it needs. All ranks are told."""

    name: ClassVar[str]
    """Registered name, in snake_case."""

    def on_rollout(self, trainer: Trainer, pl_module: LightningModule, report: RolloutReport) -> None:
        """After a rollout has been sampled and scored, before its first update is complete."""

    def on_update(self, trainer: Trainer, pl_module: LightningModule, report: UpdateReport) -> None:
        """After an optimizer step."""

    def on_evaluation(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        stage: str,
        update: int,
        reports: Sequence[EvaluationReport],
    ) -> None:
        """After all data sets have been evaluated.

        ``stage`` is ``validation`` or ``test``, ``update`` the number of optimizer steps before it (0 outside ``fit``).
        """

    @override
    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        reports = outputs if isinstance(outputs, Mapping) else {}
        with profiling.phase(profiling.LOGGING):
            self._told(trainer, pl_module, reports)

    def _told(self, trainer: Trainer, pl_module: LightningModule, reports: Mapping[str, Any]) -> None:
        rollout, update = reports.get("rollout"), reports.get("update")
        if isinstance(rollout, RolloutReport):
            if reports.get("evaluation"):  # made just before the rollout: trainer.global_step may have moved on
                self.on_evaluation(trainer, pl_module, "validation", rollout.update, list(reports["evaluation"]))
            self.on_rollout(trainer, pl_module, rollout)
        if isinstance(update, UpdateReport):
            self.on_update(trainer, pl_module, update)

    @override
    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.sanity_checking:
            self._evaluated(trainer, pl_module, "validation")

    @override
    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._evaluated(trainer, pl_module, "test")

    def _evaluated(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        reports = getattr(pl_module, "evaluation_reports", None)
        if reports:
            with profiling.phase(profiling.LOGGING):
                self.on_evaluation(trainer, pl_module, stage, trainer.global_step, list(reports))
