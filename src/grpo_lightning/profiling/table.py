"""The table of a run's phases, over its ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grpo_lightning.profiling.phases import PHASES
from grpo_lightning.profiling.profiler import PhaseRecord

Row = dict[str, Any]
"""A line of the table: by column, ``None`` where there is nothing to tell."""
COLUMNS = ("phase", "calls", "tokens", "seconds", "seconds_max", "share", "gflop", "gflop_per_second", "gflop_again",
           "peak_mb", "padding", "duplicated", "zero_signal")  # fmt: skip
"""``docs/profiling.md`` defines them."""
ALL = "all"
"""The phase of the last line."""
_FORMATS = {"calls": ",d", "tokens": ",d", "seconds": ".3f", "seconds_max": ".3f", "share": ".1%", "gflop": ",.2f",
            "gflop_per_second": ",.2f", "gflop_again": ",.2f", "peak_mb": ",.0f", "padding": ".1%",
            "duplicated": ".1%", "zero_signal": ".1%"}  # fmt: skip


@dataclass(frozen=True)
class PhaseTable:
    """What the phases of a run came to."""

    ranks: Sequence[Mapping[str, PhaseRecord]]
    """The records of every rank."""
    about: Mapping[str, Any]
    """What else is known of the run, by its name for people."""

    @property
    def wall_seconds(self) -> float:
        """Mean over ranks of the whole time."""
        return sum(each.seconds for records in self.ranks for each in records.values()) / len(self.ranks)

    def rows(self) -> list[Row]:
        """A line for each phase that occurred, the known ones in their order, and one for all of them."""
        found = {name for records in self.ranks for name in records}
        names = [name for name in PHASES if name in found]
        names += sorted(found - PHASES.keys())
        everything = [each for records in self.ranks for each in records.values()]
        slowest = max(sum(each.seconds for each in records.values()) for records in self.ranks)
        lines = []
        for name in names:
            records = [records[name] for records in self.ranks if name in records]
            lines.append(self._row(name, records, max(each.seconds for each in records)))
        return [*lines, self._row(ALL, everything, slowest) | {"calls": None}]

    def _row(self, name: str, records: Sequence[PhaseRecord], slowest: float) -> Row:
        calls, positions, tokens, operations = (
            sum(getattr(each, field) for each in records) for field in ("calls", "positions", "tokens", "operations")
        )
        again, duplicated, silent = (
            sum(getattr(each, field) for each in records) for field in ("recomputed", "duplicated", "silent")
        )
        seconds = sum(each.seconds for each in records)
        peak = max(each.peak_memory for each in records)
        mean, wall = seconds / len(self.ranks), self.wall_seconds
        return {
            "phase": name,
            "calls": calls,
            "tokens": tokens or None,
            "seconds": mean,
            "seconds_max": slowest,
            "share": mean / wall if wall else None,
            "gflop": operations / 1e9 if operations else None,
            "gflop_per_second": operations / 1e9 / seconds if operations and seconds else None,
            "gflop_again": again / 1e9 if again else None,
            "peak_mb": peak / 1e6 if peak else None,
            "padding": (positions - tokens) / positions if positions else None,
            "duplicated": duplicated / positions if positions else None,
            "zero_signal": silent / positions if positions else None,
        }

    def data(self) -> dict[str, Any]:
        """For machines: what is known of the run, and the lines."""
        return {**self.about, "wall_seconds": self.wall_seconds, "phases": self.rows()}

    def markdown(self) -> str:
        """For people; ``seconds_max`` only where there are several ranks."""
        columns = [name for name in COLUMNS if name != "seconds_max" or len(self.ranks) > 1]
        lines = ["# Profile", "", f"- wall time: {self.wall_seconds:.3f} s"]
        lines += [f"- {name.replace('_', ' ')}: {value}" for name, value in self.about.items()]
        lines += ["", _line(columns), "|---|" + "---:|" * (len(columns) - 1)]
        lines += [_line([_text(row[name], name) for name in columns]) for row in self.rows()]
        return "\n".join([*lines, ""])


def _text(value: Any, column: str) -> str:
    if value is None:
        return ""
    return format(value, _FORMATS[column]) if column in _FORMATS else str(value)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
