"""Result files: one a benchmark, with the last two runs of every machine, so that a table can show that it was reproduced."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from measuring import machine, options

KEPT = 2
FACTS = ("processor", "cores", "threads", "torch")
"""What makes two runs those of one machine."""


def save(folder: Path, name: str, settings: dict[str, Any], cases: list[dict[str, Any]]) -> Path:
    """Add a run to ``folder/name.json``. Runs with other settings go; each machine keeps its last ``KEPT``.

    Args:
        folder: Folder of the result files.
        name: Name of the benchmark.
        settings: What was measured.
        cases: One entry a row of the table.
    """
    about = machine.describe()
    run = {
        "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": about,
        "settings": json.loads(json.dumps(settings, default=str)),
        "cases": cases,
    }
    path = folder / f"{name}.json"
    before = [each for each in runs(folder, name) if each["settings"] == run["settings"]]
    kept = [each for group in by_machine([*before, run]) for each in group[-KEPT:]]
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"benchmark": name, "runs": kept}, indent=1) + "\n")
    return path


def runs(folder: Path, name: str) -> list[dict[str, Any]]:
    """The runs of a benchmark, those of a machine together and each machine's newest last; none if it was never run."""
    path = folder / f"{name}.json"
    return list(json.loads(path.read_text())["runs"]) if path.exists() else []


def by_machine(some: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Runs of equal processor, cores, threads and torch, oldest first; the machine that ran last comes last."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for run in sorted(some, key=lambda run: run["when"]):
        groups.setdefault(tuple(run["machine"][fact] for fact in FACTS), []).append(run)
    return sorted(groups.values(), key=lambda group: group[-1]["when"])


def finish(arguments: Any, name: str, settings: dict[str, Any], cases: list[dict[str, Any]]) -> None:
    """Save a run and print its table."""
    from measuring import tables

    settings = {"model": arguments.model, "repeats": arguments.repeats, "threads": arguments.threads} | settings
    path = save(arguments.out, name, settings, cases)
    print(machine.sentence(machine.describe()))
    print(tables.text(name, runs(arguments.out, name)))
    print(f"written: {path}")
    if arguments.out == options.RESULTS:
        tables.write(options.RESULTS)
