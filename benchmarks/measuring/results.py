"""Result files: one a benchmark, with its last two runs, so that a table can show that it was reproduced."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

from measuring import machine, options

KEPT = 2


def save(folder: Path, name: str, settings: dict[str, Any], cases: list[dict[str, Any]]) -> Path:
    """Add a run to ``folder/name.json``. Runs with other settings or from another machine are no repetition: they go.

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
    before = [each for each in runs(folder, name) if _comparable(each, run)]
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"benchmark": name, "runs": [*before, run][-KEPT:]}, indent=1) + "\n")
    return path


def runs(folder: Path, name: str) -> list[dict[str, Any]]:
    """The runs of a benchmark, the newest last; none if it was never run."""
    path = folder / f"{name}.json"
    return list(json.loads(path.read_text())["runs"]) if path.exists() else []


def _comparable(one: dict[str, Any], other: dict[str, Any]) -> bool:
    facts = ("processor", "cores", "threads", "torch")
    same_machine = all(one["machine"][fact] == other["machine"][fact] for fact in facts)
    return same_machine and one["settings"] == other["settings"]


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
