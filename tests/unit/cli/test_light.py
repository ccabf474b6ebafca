from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from typing import Any

import pytest

from grpo_lightning import hookimpl
from grpo_lightning.cli import light
from grpo_lightning.cli.main import main
from grpo_lightning.pluginmanager import Plugins
from grpo_lightning.registry import Registry


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--times", type=int, default=1)


def greet(arguments: Namespace) -> int:
    """say hello

    As often as it is asked to.
    """
    print("hello " * arguments.times)
    return arguments.times - 1


class _Good:
    @staticmethod
    @hookimpl
    def grpo_register_commands() -> dict[str, Any]:
        return {"greet": (add_arguments, greet)}


class _Clash:
    @staticmethod
    @hookimpl
    def grpo_register_commands() -> dict[str, Any]:
        return {"fit": (add_arguments, greet), "greet": (add_arguments, greet)}


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> Registry:
    plugins = Plugins([])
    plugins.register("good", _Good, "grpo-lightning-good", "1.0")
    plugins.register("zzz", _Clash, "grpo-lightning-zzz", "1.0")
    registry = Registry(plugins)
    monkeypatch.setattr(light, "registry", lambda: registry)
    return registry


def test_a_plugins_command_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["greet"]) == 0
    assert capsys.readouterr().out.strip() == "hello"
    assert main(["greet", "--times", "3"]) == 2, "its own exit code"


def test_its_docstring_is_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert re.search(r"^  greet +say hello$", capsys.readouterr().out, re.M)
    assert main(["greet", "--help"]) == 0
    assert "As often as it is asked to." in capsys.readouterr().out


def test_a_wrong_argument_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["greet", "--times", "many"]) == 2
    assert capsys.readouterr().err == (
        "error: arguments: '--times many' cannot be read: argument --times: invalid int value: 'many'; "
        "see python -m grpo_lightning greet --help\n"
    )


def test_taken_names_are_a_fault_of_the_plugin(known: Registry) -> None:
    light.commands(known)
    assert [str(failure) for failure in known.failures] == [
        "plugin 'zzz' of grpo-lightning-zzz 1.0 did not load: its command 'fit' has the name of another one",
        "plugin 'zzz' of grpo-lightning-zzz 1.0 did not load: its command 'greet' has the name of another one",
    ]
