"""What benchmarks compute from what they measure, and that each can be asked what it does."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

FOLDER = Path(__file__).parents[3] / "benchmarks"
SCRIPTS = sorted(path.name for path in FOLDER.glob("*.py") if path.name != "compat_trl.py")


def part(name: str) -> Any:
    """A module of ``benchmarks/measuring``."""
    if str(FOLDER) not in sys.path:
        sys.path.insert(0, str(FOLDER))
    return importlib.import_module(f"measuring.{name}")


def test_a_power_is_found() -> None:
    exponent = part("fitting").exponent
    assert exponent([1, 2, 4, 8], [3.0, 12.0, 48.0, 192.0]) == pytest.approx(2.0)
    assert exponent([2, 8], [5.0, 5.0]) == pytest.approx(0.0)
    # Through (0, 0), (1, 1), (2, 3) in logarithms to base 2, the slope is (0*(-1) + 3*1 - ...)/2 = 1.5.
    assert exponent([1, 2, 4], [1.0, 2.0, 8.0]) == pytest.approx(1.5)


def test_medians_and_ratios_are_taken_round_by_round() -> None:
    pairs = part("pairs")
    spread = pairs.spread([5.0, 1.0, 3.0])
    assert (spread.median, spread.low, spread.high, spread.count) == (3.0, 1.0, 5.0, 3)
    slow, fast = (
        [{"seconds": 4.0}, {"seconds": 9.0}, {"seconds": 6.0}],
        [{"seconds": 2.0}, {"seconds": 3.0}, {"seconds": 1.0}],
    )
    assert pairs.ratio(slow, fast) == {"median": 3.0, "low": 2.0, "high": 6.0, "count": 3}
    with pytest.raises(ValueError, match="no value"):
        pairs.spread([])


def test_sides_take_turns_in_going_first() -> None:
    calls: list[tuple[str, int]] = []

    def side(name: str) -> Any:
        return lambda round_: calls.append((name, round_)) or {"seconds": 1.0}

    kept = part("pairs").alternate({"a": side("a"), "b": side("b")}, 2, say=lambda _: None)
    assert calls == [("a", 0), ("b", 0), ("b", 1), ("a", 1), ("a", 2), ("b", 2)]
    assert {name: len(each) for name, each in kept.items()} == {"a": 2, "b": 2}


def test_operations_by_hand() -> None:
    operations = part("operations")
    shape = operations.Shape(layers=2, hidden=8, inner=16, heads=4, key_heads=2, depth=2, vocabulary=10)
    # A layer: queries 8x8, keys and values 8x4 each, output 8x8, three of 8x16.
    weights = 2 * (64 + 32 + 32 + 64 + 3 * 128)
    assert shape.weights() == weights
    assert operations.causal_pairs(3) == 6
    assert operations.causal_pairs(2, before=5) == 13
    once = operations.forward(shape, tokens=3, pairs=6, predictions=2)
    assert (once.body, once.attention, once.head) == (2 * weights * 3, 4 * 4 * 2 * 2 * 6, 2 * 8 * 10 * 2)
    # A prompt of 5 and 2 rows of 3: 4 and 2 tokens a row are run; 15 pairs inside the prompt, 5 + 6 + ... in each row.
    dense, shared = operations.train_dense(shape, 2, 5, 3), operations.train_shared(shape, 2, 5, 3)
    assert dense.body == 3 * 2 * weights * 2 * 7
    assert shared.body == 3 * 2 * weights * (5 + 2 * 2)
    assert dense.attention == 3.5 * 64 * 2 * 28
    assert shared.attention == 3.5 * 64 * (15 + 2 * 13)
    assert dense.head == shared.head == 3 * 2 * 8 * 10 * 6
    assert operations.tokens(2, 5, 3, shared=True) == 9
    assert operations.tokens(2, 5, 3, shared=False) == 14


def test_a_table_refuses_rows_of_another_width_and_fills_its_markers(tmp_path: Path) -> None:
    tables = part("tables")
    assert tables.table(["a", "b"], [["1", "x|y"]]) == "| a | b |\n| --- | --- |\n| 1 | x\\|y |"
    with pytest.raises(ValueError, match="3 cells"):
        tables.table(["a", "b"], [["1", "2", "3"]])
    assert tables.spread({"median": 2.0, "low": 1.0, "high": 3.0}) == "2.00 (1.00 to 3.00)"
    assert tables.spread({"median": 0.25, "low": 0.25, "high": 0.25}, 0, 100) == "25"
    page = "x\n<!-- results: step -->\nold\n<!-- end -->\ny"
    assert tables.filled(page, tmp_path) == "x\n<!-- results: step -->\n\nNot measured yet.\n\n<!-- end -->\ny"


def test_each_machine_keeps_its_last_two_runs_and_other_settings_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results, machine = part("results"), part("machine")
    hours, real = iter(range(24)), results.datetime
    clock = SimpleNamespace(now=lambda zone: real.datetime(2026, 1, 1, next(hours), tzinfo=zone))
    monkeypatch.setattr(results, "datetime", SimpleNamespace(UTC=real.UTC, datetime=clock))

    def run(processor: str, seconds: int, **settings: int) -> None:
        about = {"processor": processor, "cores": 2, "threads": 2, "torch": "2", "load_before": seconds}
        monkeypatch.setattr(machine, "describe", lambda: about)
        results.save(tmp_path, "step", settings, [{"seconds": seconds}])

    def kept() -> list[tuple[str, int]]:
        return [(each["machine"]["processor"], each["cases"][0]["seconds"]) for each in results.runs(tmp_path, "step")]

    for processor, seconds in (("A", 1), ("B", 2), ("A", 3), ("A", 4)):
        run(processor, seconds)
    assert kept() == [("B", 2), ("A", 3), ("A", 4)]
    run("B", 5)
    assert kept() == [("A", 3), ("A", 4), ("B", 2), ("B", 5)]
    run("A", 6, repeats=9)
    assert kept() == [("A", 6)]


def test_every_table_has_its_place_on_the_page() -> None:
    page = (FOLDER.parent / "docs" / "performance.md").read_text()
    for name in part("benchmark_tables").TABLES:
        assert page.count(f"<!-- results: {name} -->") == 1
        assert f"benchmarks/{name}.py" in page


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_says_what_it_does_without_importing_torch(script: str) -> None:
    code = (
        "import runpy, sys; sys.argv = [sys.argv[1], '--help']\ntry: runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    code += "except SystemExit as end: assert not end.code, end.code\nassert 'torch' not in sys.modules"
    done = subprocess.run(
        [sys.executable, "-c", code, str(FOLDER / script)], cwd=FOLDER, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "--quick" in done.stdout
