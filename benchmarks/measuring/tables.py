"""The tables of docs/performance.md, made from result files. Every script writes its own when it has run."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from measuring import machine, results

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
Run = dict[str, Any]
Rows = list[list[str]]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    for row in rows:
        if len(row) != len(head):
            raise ValueError(f"a row has {len(row)} cells where the head has {len(head)}: {list(row)}")
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def spread(value: dict[str, float], digits: int = 2, scale: float = 1.0) -> str:
    """``median (least to greatest)``."""
    median, low, high = (f"{value[name] * scale:.{digits}f}" for name in ("median", "low", "high"))
    return median if low == high else f"{median} ({low} to {high})"


def gib(value: dict[str, float]) -> str:
    """Bytes as GiB."""
    return f"{value['median'] / 2**30:.2f}"


def again(runs: Sequence[Run], index: int, read: Callable[[dict[str, Any]], str]) -> str:
    """The same number in the run before, which shows whether it was reproduced."""
    return read(runs[-2]["cases"][index]) if len(runs) > 1 else ""


def text(name: str, runs: Sequence[Run]) -> str:
    """The tables of a benchmark, one a machine with the machine below it; the machine that ran last comes first."""
    if not runs:
        return "Not measured yet."
    return "\n\n".join(_of_machine(name, group) for group in reversed(results.by_machine(runs)))


def _of_machine(name: str, runs: Sequence[Run]) -> str:
    from measuring.benchmark_tables import TABLES

    last = runs[-1]
    about = machine.sentence(last["machine"])
    foot = f"{about}. Median (least to greatest) of {last['settings']['repeats']}, {last['when'][:10]}."
    return f"{TABLES[name](runs)}\n\n{foot}"


def write(folder: Path, page: Path = PAGE) -> None:
    """Put the table of every benchmark between its markers."""
    page.write_text(filled(page.read_text(), folder))


def filled(page: str, folder: Path) -> str:
    """The text of a page with the tables of ``folder`` between ``<!-- results: NAME -->`` and ``<!-- end -->``."""

    def put(match: re.Match[str]) -> str:
        name = match[1]
        return f"<!-- results: {name} -->\n\n{text(name, results.runs(folder, name))}\n\n<!-- end -->"

    return re.sub(r"<!-- results: (\w+) -->.*?<!-- end -->", put, page, flags=re.DOTALL)
