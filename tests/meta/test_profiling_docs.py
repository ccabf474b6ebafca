"""``docs/profiling.md`` defines what ``fit --profile`` writes, no more and no less."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grpo_lightning.profiling import PHASES
from grpo_lightning.profiling.table import COLUMNS

PAGE = (Path(__file__).parents[2] / "docs" / "profiling.md").read_text()


def defined(heading: str) -> list[str]:
    """What the table below a heading defines, in order."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [name for line in section.splitlines() if line.startswith("| `")
            for name in re.findall(r"`([\w_]+)`", line.split(" | ")[0])]  # fmt: skip


def example() -> list[list[str]]:
    """The cells of the example's table, header first."""
    text = PAGE.partition("<!-- profile -->")[2].partition("<!-- end of profile -->")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:2] == "| "]


def test_phases() -> None:
    assert defined("Phases") == [*PHASES, "all"]
    for name, what in PHASES.items():
        assert f"| `{name}` | {what} |" in PAGE


def test_columns() -> None:
    assert defined("Columns") == list(COLUMNS)


def test_the_example_is_such_a_table() -> None:
    header, *rows = example()
    assert header == [name for name in COLUMNS if name != "seconds_max"]
    names = [row[0] for row in rows]
    assert names == [name for name in PHASES if name in names] + ["all"]
    seconds = {row[0]: float(row[header.index("seconds")]) for row in rows}
    assert sum(seconds[name] for name in names[:-1]) == pytest.approx(seconds["all"], abs=0.0005 * len(names))


def test_lines_above_the_table() -> None:
    text = PAGE.partition("<!-- profile -->")[2].partition("<!-- end of profile -->")[0]
    shown = {line[2:].partition(":")[0].replace(" ", "_") for line in text.splitlines() if line.startswith("- ")}
    assert shown - {"wall_time"} | {"wall_seconds"} == set(defined("Above the table"))
