"""The table of a run's phases."""

from __future__ import annotations

import pytest

from grpo_lightning.profiling import PhaseRecord
from grpo_lightning.profiling.table import COLUMNS, PhaseTable


def two_ranks() -> PhaseTable:
    first = {
        "rest": PhaseRecord(calls=1, seconds=1.0),
        "forward": PhaseRecord(
            calls=2, seconds=3.0, positions=100, tokens=80, duplicated=30, silent=10, operations=6_000_000_000,
            recomputed=500_000_000, peak_memory=5_000_000,
        ),
    }  # fmt: skip
    second = {
        "rest": PhaseRecord(calls=1, seconds=4.0),
        "forward": PhaseRecord(
            calls=2, seconds=1.0, positions=60, tokens=60, operations=2_000_000_000, peak_memory=7_000_000
        ),
        "mine": PhaseRecord(calls=1, seconds=1.0),
    }
    return PhaseTable([first, second], {"updates": 4})


def test_rows_over_ranks() -> None:
    forward, rest, mine, everything = two_ranks().rows()
    assert [each["phase"] for each in (forward, rest, mine, everything)] == ["forward", "rest", "mine", "all"]
    assert forward == {
        "phase": "forward", "calls": 4, "tokens": 140, "seconds": 2.0, "seconds_max": 3.0, "share": 0.4, "gflop": 8.0,
        "gflop_per_second": 2.0, "gflop_again": 0.5, "peak_mb": 7.0, "padding": 20 / 160, "duplicated": 30 / 160,
        "zero_signal": 10 / 160,
    }  # fmt: skip
    assert (rest["seconds"], rest["seconds_max"], rest["share"]) == (2.5, 4.0, 0.5)
    assert (mine["seconds"], mine["seconds_max"], mine["share"]) == (0.5, 1.0, 0.1)
    assert (everything["seconds"], everything["seconds_max"], everything["share"]) == (5.0, 6.0, 1.0)
    assert sum(each["seconds"] for each in (forward, rest, mine)) == two_ranks().wall_seconds == 5.0
    assert rest["tokens"] is rest["gflop"] is rest["padding"] is rest["peak_mb"] is None


def test_every_row_has_every_column() -> None:
    assert all(tuple(row) == COLUMNS for row in two_ranks().rows())


def test_for_people() -> None:
    lines = two_ranks().markdown().splitlines()
    assert lines[:5] == ["# Profile", "", "- wall time: 5.000 s", "- updates: 4", ""]
    assert lines[5] == "| " + " | ".join(COLUMNS) + " |"
    assert lines[7] == "| forward | 4 | 140 | 2.000 | 3.000 | 40.0% | 8.00 | 2.00 | 0.50 | 7 | 12.5% | 18.8% | 6.2% |"
    assert lines[8] == "| rest | 2 |  | 2.500 | 4.000 | 50.0% |  |  |  |  |  |  |  |"


def test_one_rank_has_no_slowest() -> None:
    table = PhaseTable(two_ranks().ranks[:1], {})
    assert "seconds_max" not in table.markdown()
    assert {len(line.split(" | ")) for line in table.markdown().splitlines() if line.startswith("| ")} == {
        len(COLUMNS) - 1
    }


def test_for_machines() -> None:
    data = two_ranks().data()
    assert (data["updates"], data["wall_seconds"]) == (4, 5.0)
    assert data["phases"] == two_ranks().rows()


def test_a_run_without_time() -> None:
    (rest, everything) = PhaseTable([{"rest": PhaseRecord(calls=1)}], {}).rows()
    assert rest["share"] is None
    assert everything["seconds"] == pytest.approx(0.0)
