"""The pages that are written from the code say what the code says: docs/components/ and docs/compatibility.md."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from grpo_lightning.compat import PRESETS

DOCS = Path(__file__).parents[2] / "docs"
COMPONENTS: dict[str, Any] = runpy.run_path(str(DOCS / "build_components.py"))
COMPATIBILITY: dict[str, Any] = runpy.run_path(str(DOCS / "build_compatibility.py"))
WRITTEN: dict[Path, str] = COMPONENTS["pages"]()
KINDS = COMPONENTS["KINDS"]
ENTRIES = [entry for entry in COMPONENTS["Registry"](COMPONENTS["Plugins"]([])) if entry.kind in COMPONENTS["LEFT"]]
PAGES = sorted((DOCS / "components").glob("*.md"))
ALLOWED = set(
    re.findall(
        r"\w+",
        """bar begin beta big Big bigl bigr binom cdot cdots ell end epsilon exp frac gamma ge hat in infty kappa lambda land
        ldots le left leftarrow log mathbb mathcal mathrm max mid min mu ne ni notin omega pi prod quad rho right setminus
        sigma sqrt sum tau text textstyle tfrac theta times wedge""",
    )
)
"""Macros that GitHub's MathJax is known to render. It refuses operatorname, mbox, phantom, def, newcommand and others."""
# Runs every example without Lightning; a comment below a line is what the line gives.
RUN = """
import ast, sys
sys.modules["lightning"] = sys.modules["lightning.pytorch"] = None
for block in open(sys.argv[1]).read().split("\\0"):
    space, lines, shown = {}, block.splitlines(), []
    try:
        for node in ast.parse(block).body:
            if not isinstance(node, ast.Expr):
                exec(ast.unparse(node), space)
                continue
            value = eval(ast.unparse(node), space)
            if value is not None:
                shown.append((lines[node.end_lineno], "# " + repr(value)))
        good = bool(shown) and all(wanted == found for wanted, found in shown)
    except Exception as error:
        good, shown = False, repr(error)
    print("good" if good else f"{block}\\ngave {shown}\\n")
"""


def section(entry: Any) -> str:
    """What a page says of one component."""
    text = (DOCS / "components" / f"{KINDS[entry.kind].folder}.md").read_text()
    found = re.search(rf"^## {entry.name}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"{entry.kind} {entry.name} has no section"
    return found[1]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)\n```$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.name)
def test_page_is_what_the_registry_says(path: Path) -> None:
    assert path.read_text() == WRITTEN[path], "run: python docs/build_components.py"


def test_no_page_is_left_over() -> None:
    assert {*PAGES} == {path for path in WRITTEN if path.parent.name == "components"}


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry.kind}-{entry.name}")
def test_equation_options_and_sources_are_shown(entry: Any) -> None:
    shown, made = section(entry), COMPONENTS["instance"](entry.kind, entry.name)
    formula = made.formula()
    if formula is not None:
        assert blocks(shown, "text") == [formula.text]
        assert blocks(shown, "math") == [COMPONENTS["math"](formula.latex)]
        assert all(f"| `{COMPONENTS['cell'](symbol)}` |" in shown for symbol in formula.symbols)
        ids = re.findall(r"arXiv (\d{4}\.\d{5})", " ".join(formula.sources))
        assert all(f"https://arxiv.org/abs/{each}" in shown for each in ids)
    for name in COMPONENTS["constructor_parameters"](entry.load()):
        assert f"\n| `{name}` |" in shown
    for system in made.differs:
        assert f"\n| {system} |" in shown
    assert "``" not in re.sub(r"^```", "", shown, flags=re.MULTILINE)
    assert not re.search(r":\w+:`", shown)


@pytest.mark.parametrize("kind", ["advantage", "loss", "aggregation", "kl", "correction"])
def test_every_part_of_the_objective_has_an_equation(kind: str) -> None:
    made = {entry.name: COMPONENTS["instance"](kind, entry.name) for entry in ENTRIES if entry.kind == kind}
    assert [name for name, each in made.items() if each.formula() is None] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_mathematics_is_what_github_renders(path: Path) -> None:
    for latex in blocks(path.read_text(), "math"):
        assert set(re.findall(r"\\([a-zA-Z]+)", latex)) <= ALLOWED, latex
        bare = re.sub(r"\\[{}]", "", latex)
        depth = 0
        for letter in bare:
            depth += {"{": 1, "}": -1}.get(letter, 0)
            assert depth >= 0, latex
        assert depth == 0, latex
        assert latex.count(r"\left") - latex.count(r"\leftarrow") == latex.count(r"\right"), latex
        assert re.findall(r"\\begin\{(\w+)\}", latex) == re.findall(r"\\end\{(\w+)\}", latex), latex


def test_every_example_runs_without_lightning_and_gives_what_it_shows(tmp_path: Path) -> None:
    examples = [block for entry in ENTRIES for block in blocks(section(entry), "python")]
    assert len(examples) == len(ENTRIES)
    (tmp_path / "examples").write_text("\0".join(examples))
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(tmp_path / "examples")], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["good"] * len(examples), done.stdout.replace("good\n", "")


def test_compatibility_page_is_what_the_presets_say() -> None:
    assert (DOCS / "compatibility.md").read_text() == COMPATIBILITY["page"](), "run: python docs/build_compatibility.py"


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_on_the_compatibility_page(name: str) -> None:
    shown: str = COMPATIBILITY["system"](name, PRESETS[name])
    assert shown in (DOCS / "compatibility.md").read_text()
    (written,) = blocks(shown, "yaml")
    assert yaml.safe_load(written) == {"model": PRESETS[name].settings}
    rows = len(PRESETS[name].follows) + len(PRESETS[name].differs) + len(PRESETS[name].elsewhere)
    tables = [line for line in shown.splitlines() if line.startswith("| ")]
    assert len(tables) == rows + 3
    assert all(setting in shown for setting in PRESETS[name].undecided)
