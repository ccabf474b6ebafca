"""docs/objectives.md lists every component, and the tests that it names exist. It is written by a run of those tests."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "objectives.md"
BUILD: dict[str, Any] = runpy.run_path(str(ROOT / "docs" / "build_objectives.py"))
SUBJECTS: list[tuple[str, str, str, str, str | None]] = BUILD["subjects"]()
AGAIN = "run: python docs/build_objectives.py"


def tables() -> tuple[list[list[str]], list[list[str]]]:
    """The cells of the rows of the table of components, and of that of closed forms."""
    generated = PAGE.read_text().partition(BUILD["MARK"])[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in generated.splitlines() if line[:2] == "| "
    ]
    second = next(index for index, cells in enumerate(rows) if cells == ["what", "test", "passed"])
    return rows[1:second], rows[second + 1 :]


@pytest.fixture(scope="module")
def collected() -> list[str]:
    """The names of all tests that hold gradients against each other."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-o", "addopts=", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, BUILD["EVERY"], BUILD["RANKS"]], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if "::" in line]


def test_every_component_has_its_row() -> None:
    rows, _ = tables()
    found = [(kind, link) for kind, link, *_ in rows]
    assert found == [(kind, link) for kind, _, link, *_ in SUBJECTS], AGAIN
    assert {subject[0] for subject in SUBJECTS} >= {*BUILD["PROVEN"]}


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: f"{subject[0]}-{subject[1]}")
def test_component_has_a_property_test_against_its_formula(subject: tuple[str, str, str, str, str | None]) -> None:
    file = subject[4]
    assert file is not None, f"{subject[1]} has no test_equals_its_formula"
    text = (ROOT / file).read_text()
    assert re.search(r"@formula_cases\n@given\((?:[^@]*\n)??def test_equals_its_formula\(", text), (
        f"{file}: test_equals_its_formula must be a property test: @formula_cases, then @given"
    )
    (row,) = [cells for cells in tables()[0] if cells[:2] == [subject[0], subject[2]]]
    assert row[2] == subject[3], AGAIN
    assert row[3] == BUILD["test"](f"{file}::test_equals_its_formula"), AGAIN


def test_every_property_test_against_a_formula_has_a_row() -> None:
    found = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests" / "unit").rglob("test_*.py")
        if "\ndef test_equals_its_formula(" in path.read_text()
    }
    assert found == {subject[4] for subject in SUBJECTS}


def test_every_row_passed() -> None:
    rows, closed = tables()
    assert [cells for cells in rows if len(cells) != 7 or cells[-1] != "passed"] == []
    assert [cells for cells in closed if len(cells) != 3 or cells[-1] != "passed"] == []
    assert len(closed) == len(BUILD["CLOSED"])


def test_cases_add_up() -> None:
    cases = [int(cells[4].partition(" ")[0]) for cells in tables()[0]]
    assert min(cases) >= 50
    total = re.search(r"\*\*([\d ]+) property-based cases were run\*\*", PAGE.read_text())
    assert total is not None
    assert int(total[1].replace(" ", "")) == sum(cases)


def test_invariance_tests_exist(collected: list[str]) -> None:
    for (kind, name, *_), row in zip(SUBJECTS, tables()[0], strict=True):
        pattern = BUILD["invariance"](kind, name)
        if kind in BUILD["INVARIANCE"]:
            assert pattern is not None
        if pattern is None:
            assert row[5] == "-", AGAIN
            continue
        many = sum(BUILD["matches"](pattern, nodeid) for nodeid in collected)
        assert many > 0, f"no test is named {pattern}"
        shown = f"`{pattern.rpartition('::')[2]}`"
        assert row[5] == (f"{shown} ({many})" if many > 1 else shown), AGAIN


def test_step_estimators_on_two_ranks_are_those_that_are_named() -> None:
    text = (ROOT / "tests" / "helpers" / "rank.py").read_text()
    for kind, name in BUILD["INVARIANCE_OF_ONE"]:
        assert kind != "advantage" or f'create("advantage", "{name}"' in text


@pytest.mark.parametrize("nodeid", BUILD["CLOSED"].values(), ids=lambda nodeid: nodeid.rpartition("::")[2])
def test_closed_forms_exist(nodeid: str) -> None:
    file, _, name = nodeid.partition("::")
    assert f"\ndef {name}(" in (ROOT / file).read_text()
    assert any(cells[1] == BUILD["test"](nodeid) for cells in tables()[1]), AGAIN


def test_notes_are_taken_over() -> None:
    notes = BUILD["NOTES"].read_text()
    assert PAGE.read_text().partition(BUILD["MARK"])[2].strip() == notes.strip(), f"{AGAIN} --notes"
    rows = [line for line in notes.splitlines() if line.startswith("|")]
    assert all(line.replace("\\|", "").count("|") == 6 for line in rows)


def test_patterns() -> None:
    matches = BUILD["matches"]
    assert matches("a.py::f[gspo-*]", "a.py::f[gspo-token_mean]")
    assert not matches("a.py::f[gspo-*]", "a.py::f[gspo_token-token_mean]")
    assert not matches("a.py::f[*-k3]", "a.py::f[real-k3_plus]")
    assert matches("a.py::f", "a.py::f[1-2]")
    assert not matches("a.py::f", "a.py::f_more[1-2]")


def test_cases_that_were_not_fit_are_not_counted() -> None:
    recorder = BUILD["Recorder"]()

    def case(value: int) -> None:
        if value < 0:
            raise ValueError(value)

    recorder.current, run = "a", recorder.counted(case)
    for value in (1, 2, -1, 3):
        if value > 0:
            run(value)
            continue
        with pytest.raises(ValueError):
            run(value)
    assert recorder.cases == {"a": 3}
