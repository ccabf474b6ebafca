"""The closing tables of a run, as rich draws them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rich.table import Table

from grpo_lightning.reports import EvaluationReport, RolloutReport, UpdateReport

EDGE = 5
"""Rollouts whose mean reward stands for the start or the end of a run without validation."""


@dataclass
class RunHistory:
    """What the closing table tells of a run, kept over resumes."""

    first: dict[str, list[float]] = field(default_factory=dict)
    """Update and score of the first validation, by data set and metric."""
    last: dict[str, list[float]] = field(default_factory=dict)
    """The same of the last one."""
    first_rewards: list[float] = field(default_factory=list)
    """Mean reward of each of the first rollouts."""
    last_rewards: list[float] = field(default_factory=list)
    """Mean reward of each of the last rollouts."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Wall time by phase."""

    def add_rollout(self, report: RolloutReport, reward: float | None) -> None:
        """Count a rollout's time, and its mean reward where it has one."""
        for phase in ("generate", "reward", "score"):
            self.spend(phase, report.seconds.get(phase, 0.0))
        if reward is not None:
            self.first_rewards = [*self.first_rewards, reward][:EDGE]
            self.last_rewards = [*self.last_rewards, reward][-EDGE:]

    def add_update(self, report: UpdateReport) -> None:
        """Count an update's time."""
        self.spend("warm-up" if report.stage == "warmup" else "update", report.metrics.get("time/update", 0.0))

    def add_validation(self, update: int, reports: Sequence[EvaluationReport]) -> None:
        """Note the accuracy of every data set, or its reward where nothing says what is correct."""
        for report in reports:
            metric = next((name for name in ("accuracy", "reward") if name in report.metrics), None)
            if metric is not None:
                score = [float(update), float(report.metrics[metric])]
                self.first.setdefault(f"{report.dataset} {metric}", score)
                self.last[f"{report.dataset} {metric}"] = score

    def spend(self, phase: str, seconds: float) -> None:
        """Add to the wall time of a phase."""
        if seconds > 0:
            self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds


def before_and_after(history: RunHistory) -> Table:
    """First and last validation of each data set; without validation, mean reward of the first and last rollouts."""
    table = Table(title="before and after", title_justify="left")
    for column in ("", "before", "after"):
        table.add_column(column, justify="right" if column else "left")
    for name, (update, score) in history.first.items():
        last_update, last_score = history.last[name]
        table.add_row(name, f"{score:.3f} (update {update:.0f})", f"{last_score:.3f} (update {last_update:.0f})")
    if not history.first and history.first_rewards:
        first, last = history.first_rewards, history.last_rewards
        table.add_row(
            "mean reward",
            f"{sum(first) / len(first):.3f} (first {len(first)} rollouts)",
            f"{sum(last) / len(last):.3f} (last {len(last)} rollouts)",
        )
    return table


def evaluation_table(stage: str, reports: Sequence[EvaluationReport]) -> Table:
    """A row for each metric, a column for each data set."""
    table = Table(title=stage, title_justify="left")
    table.add_column("")
    for report in reports:
        table.add_column(report.dataset, justify="right")
    table.add_row("prompts", *(str(report.prompts) for report in reports))
    table.add_row("completions a prompt", *(str(report.samples) for report in reports))
    for key in dict.fromkeys(key for report in reports for key in report.metrics):
        table.add_row(key, *(f"{report.metrics[key]:.4g}" if key in report.metrics else "" for report in reports))
    return table


def times(seconds: Mapping[str, float], total: float) -> str:
    """Wall time and the share of each phase.

    Example:
        >>> from grpo_lightning.callbacks.report_tables import times
        >>> times({"generate": 6.0, "update": 3.0}, 10.0)
        '10.0 s: generate 6.0 s (60%), update 3.0 s (30%), other 1.0 s (10%)'
    """
    phases = {**seconds, "other": max(0.0, total - sum(seconds.values()))}
    shares = (f"{phase} {spent:.1f} s ({spent / max(total, 1e-9):.0%})" for phase, spent in phases.items())
    return f"{total:.1f} s: " + ", ".join(shares)
