"""The rules of CONTRIBUTING.md that a machine can hold."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from grpo_lightning.kinds import KINDS

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "grpo_lightning"
SOURCES = sorted([*PACKAGE.rglob("*.py"), *ROOT.glob("plugins/*/src/**/*.py")])
LONGEST = 300
LONGEST_BY_FILE = {PACKAGE / "module.py": 250}
LONGEST_FUNCTION = 40
VAGUE = {"utils", "helpers", "common", "misc"}
MAY_PRINT = {PACKAGE / "cli", PACKAGE / "callbacks"}
UNFINISHED = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XXX)\b|\bNotImplementedError\b")


def short(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@pytest.mark.parametrize("path", SOURCES, ids=short)
def test_file_is_short(path: Path) -> None:
    allowed = LONGEST_BY_FILE.get(path, LONGEST)
    lines = len(path.read_text().splitlines())
    assert lines <= allowed, f"{short(path)} has {lines} lines, {allowed} are allowed: it holds more than one idea"


@pytest.mark.parametrize("path", SOURCES, ids=short)
def test_functions_are_short(path: Path) -> None:
    """Statements count, the docstring and the signature do not."""
    long = []
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            lines = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
            if lines > LONGEST_FUNCTION:
                long.append(f"{short(path)}:{node.lineno}: {node.name} has {lines} lines")
    assert not long, "\n".join(long)


@pytest.mark.parametrize("path", SOURCES, ids=short)
def test_names_say_what_a_file_holds(path: Path) -> None:
    assert not VAGUE & set(path.relative_to(ROOT).with_suffix("").parts)


@pytest.mark.parametrize("path", SOURCES, ids=short)
def test_nothing_is_printed_from_the_library(path: Path) -> None:
    if any(path.is_relative_to(folder) for folder in MAY_PRINT):
        return
    calls = [node for node in ast.walk(tree(path)) if isinstance(node, ast.Call)]
    printed = [node.lineno for node in calls if isinstance(node.func, ast.Name) and node.func.id == "print"]
    assert not printed, f"{short(path)}: print on lines {printed}; use logging"


@pytest.mark.parametrize("path", SOURCES, ids=short)
def test_nothing_is_unfinished(path: Path) -> None:
    marks = [number for number, line in enumerate(path.read_text().splitlines(), 1) if UNFINISHED.search(line)]
    assert not marks, f"{short(path)}: unfinished on lines {marks}"


@pytest.mark.parametrize("path", SOURCES, ids=short)
def test_file_says_what_it_is(path: Path) -> None:
    module = tree(path)
    assert ast.get_docstring(module), f"{short(path)} has no docstring"
    if path.name not in ("__init__.py", "_version.py"):
        future = [node for node in module.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
        assert future, f"{short(path)} lacks from __future__ import annotations"


@pytest.mark.parametrize("folder", sorted({kind.folder for kind in KINDS.values()}))
def test_folder_of_a_kind_says_how_to_add_one_more(folder: str) -> None:
    docstring = ast.get_docstring(tree(PACKAGE / folder / "__init__.py")) or ""
    assert "add one" in docstring.lower(), f"{folder}/__init__.py does not say how to add one more"
    assert "grpo_register_" in docstring or "builtins.py" in docstring, (
        f"{folder}/__init__.py does not say how to register one"
    )


@pytest.mark.parametrize("path", sorted((ROOT / "tests").rglob("test_*.py")), ids=short)
def test_names_of_test_files_are_unique(path: Path) -> None:
    same = [short(other) for other in (ROOT / "tests").rglob(path.name)]
    assert same == [short(path)]
