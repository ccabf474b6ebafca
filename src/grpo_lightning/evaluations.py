"""Evaluation sets during a run: completing, scoring and reporting them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from grpo_lightning import profiling
from grpo_lightning.data.datamodule import EvaluationBatch, GRPODataModule
from grpo_lightning.evaluation import EvaluationMetrics
from grpo_lightning.registry import build
from grpo_lightning.reports import EvaluationReport
from grpo_lightning.rewards.composer import entry_name
from grpo_lightning.rewards.firewall import Firewall
from grpo_lightning.rollout import world
from grpo_lightning.rollout.evaluate import EvaluatedRow, evaluate
from grpo_lightning.rollout.play import Group, PlaySettings
from grpo_lightning.rollout.refresh import refresh_engine
from grpo_lightning.rollout.samples import evaluation_samples
from grpo_lightning.settings import EvaluationSet
from grpo_lightning.strategies.sharding import whole
from grpo_lightning.strategies.validation import validate_now

if TYPE_CHECKING:
    from grpo_lightning.module import GRPOModule


class Evaluations:
    """The evaluation sets of a run and their statistics since the last report.

    Args:
        module: The module of the run.
        data: Its data.
        play_settings: Makes the settings of a stream: its name, and what changes.
        firewall: The rewards.
    """

    def __init__(
        self, module: GRPOModule, data: GRPODataModule, play_settings: Callable[..., PlaySettings], firewall: Firewall
    ) -> None:
        self.module, self.data, self._play_settings, self._firewall = module, data, play_settings, firewall
        self._error: Exception | None = None
        self._evaluations: dict[tuple[str, str], tuple[EvaluationMetrics, list[EvaluatedRow]]] = {}

    def evaluate(self, batch: EvaluationBatch, kind: str) -> list[EvaluatedRow]:
        """Complete and score some prompts of an evaluation set, and add them to its statistics.

        Ranks have batches of their own, and not all as many. What goes wrong on one of several is kept until they meet again,
        in :meth:`raise_together`; until then that rank evaluates nothing.
        """
        with whole(self.module.policy):
            refresh_engine(self.module)
            with self.module.policy.passes():
                return self._contained(batch, kind)

    def _contained(self, batch: EvaluationBatch, kind: str) -> list[EvaluatedRow]:
        if self._error is not None or not batch.indices:
            return []
        try:
            return self._evaluate(batch, kind)
        except Exception as error:
            self._firewall.close()
            self._error = error
            if world.world_size() == 1:
                self.raise_together()
            return []

    def raise_together(self) -> None:
        """Raise on every rank what went wrong on one of them; a collective.

        Raises:
            Exception: The error of the first rank that has one.
        """
        error, self._error = self._error, None
        world.raise_together(error)

    @profiling.during(profiling.EVALUATION)
    def _evaluate(self, batch: EvaluationBatch, kind: str) -> list[EvaluatedRow]:
        name, version = batch.dataset, self.module.trainer.global_step
        settings = (self.data.validation if kind == "validation" else self.data.test)[name]
        prompts = self.data.evaluation_sets[kind, name]
        sampler = build("sampler", settings.sampler, f"data.{kind}.{name}.sampler")
        play_settings = self._play_settings(f"{kind}/{name}", sampler=sampler, members=settings.samples)
        groups = [Group(index, prompts.prompt(index), prompts.encoded(index)) for index in batch.indices]
        rows = evaluate(
            play_settings, self._firewall, groups, batch.indices, version=version, threshold=settings.correct
        )
        metrics, kept = self._evaluation(kind, name, settings)
        metrics.update([row.statistics() for row in rows])
        kept += rows[: max(0, 8 - len(kept))]
        return rows

    def _evaluation(
        self, kind: str, name: str, settings: EvaluationSet
    ) -> tuple[EvaluationMetrics, list[EvaluatedRow]]:
        """The statistics of an evaluation set since its last report, and a few rows to show."""
        if (kind, name) not in self._evaluations:
            components = [entry_name(entry) for entry in self.module.rewards]
            metrics = EvaluationMetrics(k=settings.k or [1], components=components).to(self.module.device)
            self._evaluations[kind, name] = (metrics, [])
        return self._evaluations[kind, name]

    def baseline(self) -> list[EvaluationReport]:
        """Evaluate every validation set before the first rollout, so that a curve has a start; log it at once."""
        trainer, every = self.module.trainer, self.data.validate_every
        step = trainer.global_step
        if not every or (step and step % every == 0):
            return []  # never, or just done
        for loader in self.data.val_dataloader():
            for batch in loader:
                self.evaluate(batch, "validation")
        reports = self.reports("validation")
        for logger in trainer.loggers:
            for report in reports:
                metrics = {f"validation/{report.dataset}/{name}": value for name, value in report.metrics.items()}
                logger.log_metrics(metrics, step=step)
        return reports

    def catch_up(self, evaluated: int) -> None:
        """Validate if that was due when the checkpoint was written: it is written before, and the run may have ended meanwhile.

        Args:
            evaluated: Updates at the last validation that the checkpoint knows of.
        """
        step, every = self.module.trainer.global_step, self.data.validate_every
        if every and self.data.validation and step % every == 0 and evaluated < step:
            validate_now(self.module.trainer)

    @profiling.during(profiling.EVALUATION)
    def reports(self, kind: str) -> list[EvaluationReport]:
        """Reports of the sets evaluated since the last call; a collective."""
        self.raise_together()
        sets = self.data.validation if kind == "validation" else self.data.test
        reported = []
        for name, settings in sets.items():
            metrics, rows = self._evaluation(kind, name, settings)
            del self._evaluations[kind, name]
            size = len(self.data.evaluation_sets[kind, name])
            reported.append(EvaluationReport(name, size, settings.samples, metrics.compute(), evaluation_samples(rows)))
        return reported

    def publish(self, kind: str) -> None:
        """Keep the reports of the sets evaluated since the last call for callbacks, and log them; a collective."""
        self.module.evaluation_reports = self.reports(kind)
        for report in self.module.evaluation_reports:
            metrics = {f"{kind}/{report.dataset}/{name}": value for name, value in report.metrics.items()}
            # Lightning would number an evaluation by batches that stepped, which is one less here.
            self.module.log_dict(metrics | {"step": float(self.module.trainer.global_step)})
        if kind == "validation":
            self.module.session.committed.evaluated = self.module.trainer.global_step
