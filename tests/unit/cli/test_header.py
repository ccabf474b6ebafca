from __future__ import annotations

from types import SimpleNamespace

import pytest

from grpo_lightning import __version__, hookimpl
from grpo_lightning.cli.header import Header
from grpo_lightning.pluginmanager import Plugins
from grpo_lightning.registry import Registry
from helpers.configured_classes import built_ins


class _Plugin:
    @staticmethod
    @hookimpl
    def grpo_report_header() -> str:
        return "kindness 1.0: 3 judges"


class _Broken:
    @staticmethod
    @hookimpl
    def grpo_register_reward() -> object:
        raise ZeroDivisionError("by hand")


def rank(zero: bool) -> SimpleNamespace:
    return SimpleNamespace(is_global_zero=zero)


def test_what_is_run_and_what_plugins_say(capsys: pytest.CaptureFixture[str]) -> None:
    plugins = Plugins([])
    plugins.register("kindness", _Plugin, "grpo-lightning-kindness", "1.0")
    plugins.register("broken", _Broken, "grpo-lightning-broken", "2.0")
    header = Header("run runs/001", Registry(plugins), {"gone": "3.0"})
    header.on_fit_start(rank(True), None)  # type: ignore[arg-type]
    header.on_validation_start(rank(True), None)  # type: ignore[arg-type]
    captured = capsys.readouterr()
    assert captured.out == f"grpo_lightning {__version__}: run runs/001\nkindness 1.0: 3 judges\n", "once"
    assert captured.err == (
        "warning: plugin 'broken' of grpo-lightning-broken 2.0 did not load: "
        "hook grpo_register_reward raised ZeroDivisionError: by hand\n"
        "warning: the configuration was written with gone 3.0, and here it is not loaded\n"
    )


def test_one_rank_speaks(capsys: pytest.CaptureFixture[str]) -> None:
    Header("run runs/001", built_ins(), {}).on_fit_start(rank(False), None)  # type: ignore[arg-type]
    assert capsys.readouterr().out == ""
