"""Metrics as CSV, where a continued run continues the file."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from lightning.fabric.utilities.rank_zero import rank_zero_only
from lightning.pytorch.loggers import CSVLogger
from typing_extensions import override


class ContinuedCSVLogger(CSVLogger):
    """Writes ``metrics.csv`` straight into ``folder``, a line as soon as it is logged.

    Args:
        folder: Where to write.
        keep: Keep the lines that are there, up to the first step that is logged again; otherwise start afresh.
    """

    def __init__(self, folder: Path, *, keep: bool = False) -> None:
        super().__init__(folder, name="", version="", flush_logs_every_n_steps=1)
        self._kept: list[dict[str, Any]] = _read(folder / "metrics.csv") if keep else []

    @override
    @rank_zero_only
    def log_metrics(self, metrics: dict[str, Any], step: int | None = None) -> None:
        if self._kept:
            # The writer starts a new file, so the old lines are handed to it first.
            before = [line for line in self._kept if step is None or int(line["step"]) < step]
            self.experiment.metrics.extend(before)
            self._kept = []
        super().log_metrics(metrics, step)


def _read(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [{key: value for key, value in line.items() if value != ""} for line in csv.DictReader(file)]
