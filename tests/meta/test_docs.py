"""The documentation says what the code does."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from grpo_lightning import hookspecs
from grpo_lightning.kinds import KINDS

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("plugins/**/*.md"), *ROOT.glob("configs/**/*.md")]
)
HOOKS = [name for name in vars(hookspecs) if name.startswith("grpo_")]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def short(path: Path) -> str:
    return str(path.relative_to(ROOT))


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(path: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", without_code(path.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_components", ROOT / "docs" / "build_components.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("hook", HOOKS)
def test_hook_is_documented_with_its_signature(hook: str) -> None:
    arguments = ", ".join(inspect.signature(getattr(hookspecs, hook)).parameters)
    assert f"\n### `{hook}({arguments})`\n" in (ROOT / "docs" / "hooks.md").read_text()


def test_no_hook_is_documented_that_does_not_exist() -> None:
    documented = re.findall(r"^### `(grpo_\w+)\(", (ROOT / "docs" / "hooks.md").read_text(), re.MULTILINE)
    assert sorted(documented) == sorted(HOOKS)


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS.values() if kind.name != "callback"], ids=lambda kind: kind.name
)
def test_hooks_page_names_the_base_class(kind: object) -> None:
    name = f"grpo_lightning.{kind.folder}.base.{kind.base}"  # type: ignore[attr-defined]
    assert f"`{name}`" in (ROOT / "docs" / "hooks.md").read_text()


def test_components_page_is_what_the_registry_says() -> None:
    written = (ROOT / "docs" / "components.md").read_text()
    assert written == generator().page(), "run: python docs/build_components.py"


@pytest.mark.parametrize("page", PAGES, ids=short)
def test_relative_links_resolve(page: Path) -> None:
    broken = []
    for target in LINK.findall(without_code(page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in anchors(path)):
            broken.append(target)
    assert not broken


@pytest.mark.parametrize("page", PAGES, ids=short)
def test_files_in_tables_exist(page: Path) -> None:
    """A table that sends a reader to a file or folder in backticks names one that exists."""
    rows = [line for line in without_code(page.read_text()).splitlines() if line.startswith("|")]
    paths = re.findall(r"`((?:src|tests|configs|docs|plugins|\.ci)/[\w./-]+)`", "\n".join(rows))
    missing = [path for path in paths if not (ROOT / path).exists()]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=short)
def test_python_blocks_compile(page: Path) -> None:
    for block in BLOCK.findall(page.read_text()):
        ast.parse(block)


def readme_example() -> str:
    text = (ROOT / "README.md").read_text()
    (block,) = re.findall(r"<!-- runnable -->\n```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return str(block)


def test_readme_example_has_twenty_lines() -> None:
    assert len([line for line in readme_example().splitlines() if line]) <= 20


@pytest.mark.slow
def test_readme_example_runs(tmp_path: Path) -> None:
    script = tmp_path / "example.py"
    script.write_text(readme_example())
    # Lightning keeps SIGTERM for itself; subprocess kills with SIGKILL when the time is over.
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "grpo 100/100" in done.stdout + done.stderr


@pytest.mark.parametrize("page", PAGES, ids=short)
def test_commands_name_files_that_exist(page: Path) -> None:
    named = re.findall(r"--config[= ](\S+\.yaml)", page.read_text())
    missing = [name for name in named if name.startswith(("configs/", "plugins/")) and not (ROOT / name).exists()]
    assert not missing
