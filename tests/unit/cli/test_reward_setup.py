from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from grpo_lightning import hookimpl
from grpo_lightning.cli.reward_setup import reward_setup
from grpo_lightning.errors import ConfigError
from grpo_lightning.pluginmanager import Plugins
from grpo_lightning.registry import Registry
from grpo_lightning.rewards.exact_match import ExactMatch
from grpo_lightning.rewards.function import FunctionReward
from helpers.configured_classes import built_ins


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(name: str, *rewards: Any, **model: Any) -> str:
    Path(name).write_text(yaml.safe_dump({"model": {"rewards": list(rewards), **model}}))
    return name


def test_entries_are_built_as_a_run_builds_them() -> None:
    file = write(
        "a.yaml", "exact_match", {"name": "length", "maximum": 4, "weight": 0.5, "on_failure": 0}, group_size=4
    )
    setup = reward_setup([file], built_ins())
    assert isinstance(setup.entries[0].reward, ExactMatch)
    assert (setup.entries[1].weight, setup.entries[1].on_failure, setup.entries[1].reward.maximum) == (0.5, 0, 4)  # type: ignore[attr-defined]
    assert (setup.title, setup.rollout_rows) == ("a.yaml", 4 * 16)


def test_files_are_laid_over_each_other() -> None:
    base, over = write("a.yaml", "exact_match"), write("b.yaml", {"name": "length", "maximum": 3})
    assert [entry.reward.name for entry in reward_setup([base, over], built_ins()).entries] == ["length"]


def test_a_function_beside_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "beside_the_yaml.py").write_text(
        "def short(completions):\n    return [1.0] * len(completions)\n"
    )
    setup = reward_setup([write("there/a.yaml", "beside_the_yaml.short")], built_ins())
    assert isinstance(setup.entries[0].reward, FunctionReward)


def test_one_entry_by_its_name() -> None:
    file = write(
        "a.yaml", "exact_match", {"reward": "exact_match", "name": "loose", "ignore_case": True, "log_only": True}
    )
    (entry,) = reward_setup([f"{file}#loose"], built_ins()).entries
    assert entry.reward.ignore_case  # type: ignore[attr-defined]
    assert not entry.log_only, "alone, it counts"
    silent = write("b.yaml", "exact_match", {"name": "length", "maximum": 3, "weight": 0})
    (entry,) = reward_setup([f"{silent}#length"], built_ins()).entries
    assert entry.weight == 1.0
    with pytest.raises(ConfigError, match="'lose' is the name of no reward; did you mean 'loose'"):
        reward_setup([f"{file}#lose"], built_ins())


@pytest.mark.parametrize(
    ("rewards", "message"),
    [
        (["exct_match"], "model.rewards.0: 'exct_match' is no known reward; did you mean 'exact_match'"),
        ([{"name": "length", "maximum": 0}], r"model.rewards.0.maximum: 0 is outside \[1, inf\]"),
        ([{"reward": "exact_match", "wieght": 1}], "model.rewards.0.wieght: 1 is no option"),
        (["exact_match", "exact_match"], "'exact_match' is the name of 2 rewards"),
        ([], "holds no reward"),
    ],
)
def test_faults_are_those_of_fit(rewards: list[Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        reward_setup([write("a.yaml", *rewards)], built_ins())


def test_a_file_without_rewards() -> None:
    Path("a.yaml").write_text("model: {group_size: 4}\n")
    with pytest.raises(ConfigError, match=r"model\.rewards: None is missing"):
        reward_setup(["a.yaml"], built_ins())
    Path("a.yaml").write_text("model: 3\n")
    with pytest.raises(ConfigError, match="model: 3 is no group of settings"):
        reward_setup(["a.yaml"], built_ins())


class _Configures:
    @staticmethod
    @hookimpl
    def grpo_configure(config: dict[str, Any]) -> None:
        config["trainer"].setdefault("max_steps", 1)
        config["model"]["rewards"].append({"name": "length", "maximum": 4, "weight": 0.1})


def test_hooks_that_change_a_configuration_are_called() -> None:
    plugins = Plugins([])
    plugins.register("configures", _Configures, "grpo-lightning-configures", "1.0")
    setup = reward_setup([write("a.yaml", "exact_match")], Registry(plugins))
    assert [entry.reward.name for entry in setup.entries] == ["exact_match", "length"]
    assert plugins.failures == []
