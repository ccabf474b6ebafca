"""The table at the end of a run."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.trainer.states import TrainerFn
from rich.console import Console
from rich.text import Text
from typing_extensions import override

from grpo_lightning.callbacks.base import ReportCallback
from grpo_lightning.callbacks.report_tables import RunHistory, before_and_after, evaluation_table, times
from grpo_lightning.callbacks.rollout_metrics import rollout_metrics
from grpo_lightning.callbacks.run_files import run_files
from grpo_lightning.reports import EvaluationReport, RolloutReport, UpdateReport

NEXT = {"test": "python -m grpo_lightning test", "predict": "python -m grpo_lightning predict"}


class RunReport(ReportCallback):
    """Ends a run with a table of before and after.

    After ``fit``: the first and the last validation (or the mean reward of the first and last rollouts), where the time
    went, where the files are, and what to run next. After ``validate`` and ``test``: the metrics of every data set. A
    resumed run reports on the time before as well. All goes to standard output.
    """

    name = "run_report"

    def __init__(self) -> None:
        self.console: Console | None = None
        """Where to write; standard output by default."""
        self._history = RunHistory()
        self._seconds_before = 0.0
        self._started = self._validation_started = time.perf_counter()

    @override
    def state_dict(self) -> dict[str, Any]:
        return {"history": asdict(self._history), "seconds": self._total()}

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._history = RunHistory(**state_dict["history"])
        self._seconds_before = state_dict["seconds"]

    @override
    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self._started = time.perf_counter()

    @override
    def on_rollout(self, trainer: Trainer, pl_module: LightningModule, report: RolloutReport) -> None:
        self._history.add_rollout(report, rollout_metrics(report).get("reward/mean"))

    @override
    def on_update(self, trainer: Trainer, pl_module: LightningModule, report: UpdateReport) -> None:
        self._history.add_update(report)

    @override
    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._validation_started = time.perf_counter()

    @override
    def on_evaluation(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        stage: str,
        update: int,
        reports: Sequence[EvaluationReport],
    ) -> None:
        if trainer.state.fn == TrainerFn.FITTING:
            self._history.add_validation(update, reports)
            if trainer.validating:
                self._history.spend("validation", time.perf_counter() - self._validation_started)
        elif trainer.is_global_zero:
            self._output().print(evaluation_table(stage, reports))
            self._list("files", run_files(trainer))

    @override
    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.is_global_zero:
            table = before_and_after(self._history)
            if table.row_count:
                self._output().print(table)
            self._list("time", {"": times(self._history.seconds, self._total())})
            self._list("files", run_files(trainer))
            self._list("next", NEXT)

    def _total(self) -> float:
        return self._seconds_before + time.perf_counter() - self._started

    def _output(self) -> Console:
        self.console = self.console or Console()
        return self.console

    def _list(self, title: str, lines: Mapping[str, str]) -> None:
        # Not a table: a long path must stay one word that can be copied.
        for name, line in lines.items():
            self._output().print(Text(f"{title:<7}{name:<17}{line}" if name else f"{title:<7}{line}"), soft_wrap=True)
            title = ""
