from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from grpo_lightning.cli import light, plugins_command
from grpo_lightning.cli.main import main
from grpo_lightning.kinds import KINDS
from grpo_lightning.registry import Registry
from helpers.installed_plugins import Site


@pytest.fixture(autouse=True)
def _registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(tmp_path, monkeypatch)
    site.add_reward("grpo-lightning-kind", "kindness", "Kindness")
    site.add("grpo-lightning-broken", "import a_module_that_is_not_there\n")
    known = Registry(site.plugins())
    for module in (light, plugins_command):
        monkeypatch.setattr(module, "registry", lambda: known)


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["plugins", *words]) == 0
    return capsys.readouterr().out


def test_list_by_kind(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "list")
    assert [line.partition(":")[0] for line in text.splitlines() if line and line[0] != " " and ":" in line] == [
        *KINDS, "failed",
    ]  # fmt: skip
    assert ["kindness", "Scores", "kindness.", "[grpo-lightning-kind", "1.0]"] in map(str.split, text.splitlines())
    assert (
        "failed: plugin 'grpo_lightning_broken' of grpo-lightning-broken 1.0 did not load: ModuleNotFoundError" in text
    )
    assert text == shown(capsys)


def test_list_of_one_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert "advantage:" not in shown(capsys, "list", "--kind", "reward")


def test_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    listed = json.loads(shown(capsys, "list", "--json"))
    (entry,) = [each for each in listed["components"] if each["name"] == "kindness"]
    assert entry == {
        "kind": "reward",
        "name": "kindness",
        "path": "grpo_lightning_kind.Kindness",
        "summary": "Scores kindness.",
        "distribution": "grpo-lightning-kind",
        "version": "1.0",
    }
    assert {each["distribution"] for each in listed["plugins"]} == {"grpo-lightning", "grpo-lightning-kind"}
    (failure,) = listed["failures"]
    assert failure["distribution"] == "grpo-lightning-broken 1.0"


@pytest.mark.parametrize("name", ["clipped", "ClippedPolicyLoss", "grpo_lightning.losses.clipped.ClippedPolicyLoss"])
def test_show_by_any_name(capsys: pytest.CaptureFixture[str], name: str) -> None:
    lines = shown(capsys, "show", name).splitlines()
    assert lines[0] == "clipped (loss: the surrogate)"
    assert lines[1].startswith("grpo_lightning.losses.clipped.ClippedPolicyLoss of grpo-lightning")
    assert "  epsilon_low: float (default 0.2)" in lines


def test_show_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(shown(capsys, "show", "length", "--json"))
    assert found["kind"] == "reward"
    assert found["description"].startswith("0 up to length")
    options: dict[str, Any] = {option["name"]: option for option in found["options"]}
    assert options["maximum"]["required"]
    assert options["buffer"]["default"] == 0
    assert options["buffer"]["type"] == "int"
    assert options["maximum"]["help"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["show", "cliped"], "error: name: 'cliped' is no component (plugin 'grpo_lightning_broken' of "
         "grpo-lightning-broken 1.0 did not load: ModuleNotFoundError: No module named 'a_module_that_is_not_there'); "
         "did you mean 'clipped'"),
        (["show", "clipped", "--kind", "reward"], "error: name: 'clipped' is no component"),
        (["show"], "error: arguments: 'show' cannot be read: the following arguments are required: name; "
         "see python -m grpo_lightning plugins show --help"),
        (["lst"], "error: arguments: 'lst' cannot be read: argument {list,show,new,check}: invalid choice: "
         "'lst'"),
        (["new", "mine", "--kind", "rewrd"], "error: kind: 'rewrd' is no kind of component; did you mean 'reward'?"),
        (["new", "mine"], "error: arguments: 'new mine' cannot be read: the following arguments are required: --kind; "),
        (["new", "kindness", "--kind", "reward"], "error: name: 'kindness' is taken: grpo_lightning_kind.Kindness of "
         "grpo-lightning-kind 1.0 is the reward 'kindness'; give another name"),
        (["check", "nothing-at-all"], "error: name: 'nothing-at-all' is no plugin and no component; "),
    ],
)  # fmt: skip
def test_faults(capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    assert main(["plugins", *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(message)
    assert captured.err.count("\n") == 1


def test_new_says_what_comes_next(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "with spaces"
    lines = shown(capsys, "new", "my-loss", "--kind", "loss", "--output", str(folder)).splitlines()
    place = folder / "grpo-lightning-my-loss"
    assert lines[0] == f"{place}: a loss called my_loss"
    assert "  src/grpo_lightning_my_loss/my_loss.py" in lines
    assert lines[-4:] == [
        "next:",
        f"  pip install -e '{place}'",
        "  python -m grpo_lightning plugins check my-loss",
        f"  python -m pytest '{place}'",
    ]
    assert (place / "src" / "grpo_lightning_my_loss" / "my_loss.py").is_file()


def test_new_in_the_current_folder(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "\n  pip install -e ./grpo-lightning-my-kl\n" in shown(capsys, "new", "my-kl", "--kind", "kl")
