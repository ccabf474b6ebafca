from __future__ import annotations

import json
from pathlib import Path

import pytest

from grpo_lightning.cli import light, plugins_command
from grpo_lightning.cli.check_plugin import check_plugin
from grpo_lightning.cli.main import main
from grpo_lightning.errors import ConfigError
from grpo_lightning.registry import Registry
from grpo_lightning.rewards.base import Reward
from helpers.installed_plugins import Site

BAD = '''
    from grpo_lightning import hookimpl
    from grpo_lightning.rewards.base import Reward

    class Rude(Reward):
        """Too few scores."""
        name = "rude"

        def score(self, *, completions):
            return [1.0]

    @hookimpl
    def grpo_register_reward():
        return [Rude]
'''
HALF = """
    from grpo_lightning import LazyComponent, hookimpl

    @hookimpl
    def grpo_register_reward():
        return LazyComponent("later", "grpo_lightning_half.Missing", "Is not there.")

    @hookimpl
    def grpo_register_advantage():
        raise KeyError("by hand")
"""


class Local(Reward):
    """1 for every row."""

    name = "local"

    def score(self, *, completions: list[str]) -> list[float]:
        return [1.0 for _ in completions]


@pytest.fixture(autouse=True)
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    site = Site(tmp_path, monkeypatch)
    site.add_reward("grpo-lightning-kind", "kindness", "Kindness")
    site.add("grpo-lightning-bad", BAD)
    site.add("grpo-lightning-half", HALF)
    site.add("grpo-lightning-broken", "import a_module_that_is_not_there\n")
    found = Registry(site.plugins())
    for module in (light, plugins_command):
        monkeypatch.setattr(module, "registry", lambda: found)
    return found


@pytest.mark.parametrize("name", ["kind", "grpo-lightning-kind", "grpo_lightning_kind", "kindness", "Kindness"])
def test_every_name_of_a_plugin(known: Registry, name: str) -> None:
    verdict = check_plugin(known, name, None)
    assert verdict.title == "grpo-lightning-kind 1.0"
    (checked,) = verdict.components
    assert (checked.kind, checked.name, checked.failed) == ("reward", "kindness", {})
    assert len(checked.passed) > 5
    assert all(checked.passed.values()), "each says what it found to hold"
    assert verdict.passed


def test_built_in_components_and_import_paths(known: Registry) -> None:
    (checked,) = check_plugin(known, "exact_match", "reward").components
    assert checked.path == "grpo_lightning.rewards.exact_match.ExactMatch"
    (own,) = check_plugin(known, f"{__name__}.Local", None).components
    assert (own.kind, own.name, own.failed) == ("reward", "local", {})


def test_a_broken_contract_is_told(known: Registry, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plugins", "check", "bad"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "grpo-lightning-bad 1.0"
    assert lines[1].startswith("  reward rude: ")
    assert " checks passed" in lines[1]
    failed = [line for line in lines if line.startswith("    failed ")]
    assert failed
    assert all(len(line) > 30 for line in failed), "each says what must hold"


def test_what_does_not_load_is_a_failure(known: Registry, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plugins", "check", "broken"]) == 1
    assert "  failed: ModuleNotFoundError: No module named 'a_module_that_is_not_there'" in capsys.readouterr().out
    verdict = check_plugin(known, "half", None)
    assert verdict.components == []
    assert any("hook grpo_register_advantage raised KeyError" in failure for failure in verdict.failures)
    assert any("reward later: grpo_lightning_half.Missing cannot be imported" in each for each in verdict.failures)


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plugins", "check", "kind", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["passed"] is True
    assert found["components"][0]["name"] == "kindness"
    assert main(["plugins", "check", "kind", "--kind", "loss", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["failures"] == ["it registers no component of the kind loss"]


def test_verbose_says_what_holds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plugins", "check", "kind", "--verbose"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("    passed can_be_built: ") for line in lines)


def test_packaging_is_warned_about(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plugins", "check", "kind"]) == 0
    warnings = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  warning: ")]
    assert any("it does not require grpo-lightning" in warning for warning in warnings)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("kindnes", "error: name: 'kindnes' is no plugin and no component; did you mean 'kindness'"),
        (
            "a_package.Nothing",
            "error: name: 'a_package.Nothing' cannot be imported (ModuleNotFoundError: No module named ",
        ),
        ("pathlib.Path", "error: name: 'pathlib.Path' is no component; give a subclass of the base class of a kind"),
    ],
)
def test_unknown_names(capsys: pytest.CaptureFixture[str], name: str, message: str) -> None:
    assert main(["plugins", "check", name]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(message)
    assert captured.err.count("\n") == 1


def test_a_path_that_leads_nowhere(known: Registry) -> None:
    with pytest.raises(ConfigError, match="has no 'Nothing'"):
        check_plugin(known, f"{__name__}.Nothing", None)
