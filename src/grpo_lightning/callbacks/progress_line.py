"""One line that says how a run is going."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from lightning.pytorch import LightningModule, Trainer
from rich.console import Console
from rich.live import Live
from rich.text import Text
from typing_extensions import override

from grpo_lightning.callbacks.base import ReportCallback
from grpo_lightning.callbacks.rollout_metrics import rollout_metrics
from grpo_lightning.errors import require_range
from grpo_lightning.reports import EvaluationReport, RolloutReport, UpdateReport

SHOWN: tuple[tuple[str, str, str], ...] = (
    ("warmup/loss", "loss", ".4f"),
    ("reward/mean", "reward", ".3f"),
    ("policy/kl", "kl", ".4f"),
    ("policy/entropy", "entropy", ".3f"),
    ("group/zero_signal_fraction", "zero signal", ".0%"),
    ("completion/length_mean", "length", ".1f"),
    ("time/generate", "generate", ".2fs"),
    ("time/reward", "reward", ".2fs"),
    ("time/update", "update", ".2fs"),
)
"""Logged key, what the line calls it, and its format."""

UNKNOWN_HORIZON = 10
"""Updates a line where ``max_steps`` sets no end."""


class ProgressLine(ReportCallback):
    """Shows a run on one live line.

    In a terminal the line is renewed at every update. Elsewhere (a file, a notebook) it is printed anew every ``every``
    updates, and shows means since the last one. Each evaluation gets a line that stays. All goes to standard error.

    Args:
        every: Updates a printed line; by default a twentieth of ``trainer.max_steps``.
    """

    name = "progress_line"

    def __init__(self, *, every: int | None = None) -> None:
        require_range("every", every if every is not None else 1, low=1)
        self.every = every
        self.console: Console | None = None
        """Where to write; standard error by default."""
        self._live: Live | None = None
        self._recent: dict[str, list[float]] = {}
        self._shown: dict[str, float] = {}
        self._stage = ""
        self._pace_from = (0.0, 0)

    @override
    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if trainer.is_global_zero and stage == "fit":
            self.console = self.console or Console(stderr=True)

    @override
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._pace_from = (time.perf_counter(), trainer.global_step)
        if self.console is not None and self.console.is_terminal:
            self._live = Live(console=self.console, auto_refresh=False)
            self._live.start()

    @override
    def on_rollout(self, trainer: Trainer, pl_module: LightningModule, report: RolloutReport) -> None:
        if self.console is not None:
            self._add(rollout_metrics(report))

    @override
    def on_update(self, trainer: Trainer, pl_module: LightningModule, report: UpdateReport) -> None:
        if self.console is None:
            return
        if report.stage != self._stage:
            self._stage, self._shown = report.stage, {}
            self._recent.pop("warmup/loss", None)
        self._add(report.metrics)
        if report.stage == "warmup":
            # The pace of GRPO says nothing of the warm-up's, nor the other way round.
            self._pace_from = (time.perf_counter(), report.update)
        if self._live is not None or self._due(report.update, trainer.max_steps):
            self._show(self._line(report, trainer.max_steps))

    @override
    def on_evaluation(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        stage: str,
        update: int,
        reports: Sequence[EvaluationReport],
    ) -> None:
        if self.console is None or stage != "validation":
            return
        for report in reports:
            known = [(key, report.metrics[key]) for key in ("accuracy", "reward") if key in report.metrics]
            scores = "  ".join(f"{key} {value:.3f}" for key, value in known)
            self._print(f"validation {update}  {report.dataset}  {scores}")

    @override
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._stop()

    @override
    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._stop()

    def _due(self, update: int, last: int) -> bool:
        every = self.every or (max(1, round(last / 20)) if last > 0 else UNKNOWN_HORIZON)
        return update % every == 0 or update in (1, last)

    def _add(self, metrics: Mapping[str, float]) -> None:
        for key, _, _ in SHOWN:
            if key in metrics:
                self._recent.setdefault(key, []).append(metrics[key])

    def _line(self, report: UpdateReport, last: int) -> str:
        self._shown |= {key: sum(values) / len(values) for key, values in self._recent.items()}
        self._recent = {}
        head = f"{report.stage} {report.update}" + (f"/{last}" if last > 0 else "")
        parts = [
            head,
            *(f"{label} {_format(self._shown[key], spec)}" for key, label, spec in SHOWN if key in self._shown),
        ]
        started, first = self._pace_from
        if report.stage != "warmup" and first < report.update < last:
            seconds = (time.perf_counter() - started) / (report.update - first) * (last - report.update)
            parts.append(f"eta {duration(seconds)}")
        return "  ".join(parts)

    def _show(self, line: str) -> None:
        if self._live is not None:
            self._live.update(Text(line), refresh=True)
        else:
            self._print(line)

    def _print(self, line: str) -> None:
        if self.console is not None:
            self.console.print(Text(line), soft_wrap=True)

    def _stop(self) -> None:
        if self._live is not None:
            self._live.stop()
        self._live = None


def _format(value: float, spec: str) -> str:
    unit = "s" if spec.endswith("s") else ""
    return f"{value:{spec.removesuffix('s')}}{unit}"


def duration(seconds: float) -> str:
    """``1:05`` for 65 seconds, ``2:00:00`` for two hours.

    Example:
        >>> from grpo_lightning.callbacks.progress_line import duration
        >>> duration(65), duration(7200)
        ('1:05', '2:00:00')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
