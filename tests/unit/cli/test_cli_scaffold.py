"""Packages that ``plugins new`` writes: their files, and that every kind's component does what its kind must do."""

from __future__ import annotations

import ast
import doctest
import inspect
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from grpo_lightning.cli.scaffold import create_plugin, render
from grpo_lightning.cli.scaffold_ideas import IDEAS
from grpo_lightning.cli.scaffold_names import Names
from grpo_lightning.errors import ConfigError
from grpo_lightning.kinds import KINDS
from grpo_lightning.pluginmanager import Plugins
from grpo_lightning.registry import Registry
from grpo_lightning.testing import check_component, suites
from helpers.configured_classes import built_ins

LONG = "a-name-of-exactly-thirty-chars"


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that makes the package of a kind, and imports it."""
    before = set(sys.modules)

    def make(kind: str) -> tuple[Path, Any]:
        names, folder = create_plugin(f"tried-{kind}", kind, tmp_path, built_ins())
        monkeypatch.syspath_prepend(folder / "src")
        return folder, import_module(names.module)

    yield make
    for module in set(sys.modules) - before:
        if module.startswith("grpo_lightning_tried"):
            del sys.modules[module]


def test_every_kind_has_an_idea_and_its_suite() -> None:
    assert list(IDEAS) == list(KINDS)
    for kind, idea in IDEAS.items():
        assert getattr(suites, idea.suite).kind == kind


@pytest.mark.parametrize("kind", KINDS)
def test_component_passes_its_checks(made: Any, kind: str) -> None:
    _, module = made(kind)
    plugins = Plugins([])
    plugins.register("tried", module, "grpo-lightning-tried", "0.1.0")
    known = Registry(plugins)
    assert known.failures == []
    component = known.resolve(kind, f"tried_{kind}")
    failed = {each.check.name: each.error for each in check_component(component) if not each.passed}
    assert failed == {}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["x", LONG])
def test_files_are_sound_whatever_the_name(kind: str, name: str) -> None:
    texts = render(Names.of(name), kind)
    component, module = name.replace("-", "_"), "grpo_lightning_" + name.replace("-", "_")
    assert sorted(texts) == sorted(
        ["pyproject.toml", "README.md", f"configs/{component}.yaml", f"tests/test_{component}.py",
         f"src/{module}/__init__.py", f"src/{module}/{component}.py", f"src/{module}/py.typed"]
    )  # fmt: skip
    for path, text in texts.items():
        assert "$" not in text
        if path.endswith(".py"):
            tree = ast.parse(text)
            assert ast.get_docstring(tree)
        if not path.endswith(".md"):
            assert max((len(line) for line in text.splitlines()), default=0) <= 128, path
    about = tomllib.loads(texts["pyproject.toml"])
    assert about["project"]["name"] == f"grpo-lightning-{name}"
    assert about["project"]["entry-points"]["grpo_lightning"] == {name: module}
    assert about["project"]["dependencies"] == ["grpo-lightning>=0.1"]
    config = yaml.safe_load(texts[f"configs/{component}.yaml"])
    assert texts[f"configs/{component}.yaml"].startswith(
        f"# python -m grpo_lightning fit --config configs/{component}.yaml\n"
    )
    section = config[IDEAS[kind].section]
    assert component in yaml.safe_dump(section)
    assert yaml.safe_load(IDEAS[kind].snippet().replace("$name", component)).keys() == {IDEAS[kind].section}


@pytest.mark.parametrize("kind", KINDS)
def test_a_component_documents_itself(made: Any, kind: str) -> None:
    folder, _ = made(kind)
    component = getattr(import_module(f"grpo_lightning_tried_{kind}.tried_{kind}"), f"Tried{kind.capitalize()}")
    assert component.name == f"tried_{kind}"
    text = inspect.cleandoc(component.__doc__)
    arguments = [name for name in inspect.signature(component).parameters if name != "self"]
    assert all(f"    {name}:" in text for name in arguments)
    assert all(
        parameter.kind is parameter.KEYWORD_ONLY and parameter.annotation is not parameter.empty
        for parameter in inspect.signature(component).parameters.values()
    )
    assert f"tried_{kind}" in (folder / "README.md").read_text()
    assert doctest.testmod(sys.modules[component.__module__]).failed == 0


def test_code_is_formatted_whatever_the_name(tmp_path: Path) -> None:
    for kind in KINDS:
        for number, name in enumerate((f"x{kind}"[:2], f"{kind}-with-a-name-of-thirty-chars"[-30:].lstrip("-"))):
            create_plugin(name, kind, tmp_path / f"{kind}{number}", built_ins())
    for action in (["check"], ["format", "--check"]):
        command = [sys.executable, "-m", "ruff", *action, "--no-cache", str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout


def test_a_class_must_not_hide_what_its_own_code_uses() -> None:
    with pytest.raises(ConfigError) as raised:
        render(Names.of("reward"), "reward")
    assert str(raised.value) == (
        "name: 'reward' would be the class Reward, a name that its own code imports; give another name, such as my-reward"
    )
    with pytest.raises(ConfigError, match="the class Tensor"):
        render(Names.of("tensor"), "advantage")


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "grpo-lightning-mine").mkdir()
    with pytest.raises(ConfigError, match="grpo-lightning-mine' is there already; remove it, or give another name"):
        create_plugin("mine", "reward", tmp_path, built_ins())
    assert list((tmp_path / "grpo-lightning-mine").iterdir()) == []


def test_unknown_kinds_have_near_matches(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="kind: 'rewards' is no kind of component; did you mean 'reward'"):
        create_plugin("mine", "rewards", tmp_path, built_ins())


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        create_plugin("mine", "reward", tmp_path / "file", built_ins())
