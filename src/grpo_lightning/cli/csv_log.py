"""Metrics as CSV, where a continued run continues the file."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lightning.fabric.utilities.rank_zero import rank_zero_only
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.loggers.csv_logs import ExperimentWriter
from typing_extensions import override

from grpo_lightning.atomic_files import being_written, put_in_place


class ContinuedCSVLogger(CSVLogger):
    """Writes ``metrics.csv`` straight into ``folder``, a line as soon as it is logged.

    Args:
        folder: Where to write.
        keep: Keep the lines that are there, up to the first step that is logged again; otherwise start afresh.
    """

    def __init__(self, folder: Path, *, keep: bool = False) -> None:
        super().__init__(folder, name="", version="", flush_logs_every_n_steps=1)
        self._kept: list[dict[str, Any]] = whole_lines(folder / "metrics.csv") if keep else []

    @property
    @override
    def experiment(self) -> ExperimentWriter:
        if self._experiment is None:
            self._experiment = _Writer(self.log_dir)
        assert isinstance(self._experiment, ExperimentWriter)
        return self._experiment

    @override
    @rank_zero_only
    def log_metrics(self, metrics: dict[str, Any], step: int | None = None) -> None:
        if self._kept:
            # The writer starts a new file, so the old lines are handed to it first.
            before = [line for line in self._kept if step is None or _stands(line, metrics, step)]
            self.experiment.metrics.extend(before)
            self._kept = []
        super().log_metrics(metrics, step)


class _Writer(ExperimentWriter):
    """Writes a new file, or one with new columns, beside the old one, which it then replaces: a run that is killed meanwhile
    has lost no line."""

    def __init__(self, log_dir: str) -> None:
        super().__init__(log_dir)
        self._began = False

    @override
    def save(self) -> None:
        if not self.metrics:
            return
        path, wider = Path(self.metrics_file_path), self._record_new_keys()
        lines, self.metrics = self.metrics, []
        if not wider:
            self._write(path, lines, "a")
            return
        before = whole_lines(path) if self._began else []
        self._write(being_written(path), [*before, *lines], "w")
        put_in_place(being_written(path), path)
        self._began = True

    def _write(self, path: Path, lines: Sequence[dict[str, Any]], mode: str) -> None:
        with path.open(mode, newline="") as file:
            writer = csv.DictWriter(file, self.metrics_keys)
            if mode == "w":
                writer.writeheader()
            writer.writerows(lines)

    @override
    def _check_log_dir_exists(self) -> None:
        """The old file stays until the new one is there."""


def _stands(line: dict[str, Any], first: dict[str, Any], step: int) -> bool:
    """Whether a line is of before ``step``, at which ``first`` is logged; of that step itself, the update stands where the
    validation after it is the first to be made again."""
    validates = all(name.startswith("validation/") for name in first)
    ends = step + 1 if validates and not any(name.startswith("validation/") for name in line) else step
    return int(line["step"]) < ends


def whole_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a file, without empty values; not one that its writer did not finish."""
    if not path.exists():
        return []
    finished = path.read_text().rpartition("\n")[0]
    return [
        {key: value for key, value in line.items() if value != ""} for line in csv.DictReader(finished.splitlines())
    ]
