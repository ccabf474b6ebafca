from __future__ import annotations

from pathlib import Path

import pytest

from grpo_lightning.cli.scaffold_names import Names, check_free
from grpo_lightning.errors import ConfigError
from grpo_lightning.pluginmanager import Plugins
from grpo_lightning.registry import Registry
from helpers.installed_plugins import Site


@pytest.mark.parametrize("given", ["my-reward", "my_reward", "grpo-lightning-my-reward", "grpo_lightning_my_reward"])
def test_every_way_to_say_a_name(given: str) -> None:
    names = Names.of(given)
    assert (names.short, names.distribution) == ("my-reward", "grpo-lightning-my-reward")
    assert (names.module, names.component, names.class_name) == ("grpo_lightning_my_reward", "my_reward", "MyReward")


def test_digits_and_single_words() -> None:
    assert Names.of("k2-plus").class_name == "K2Plus"
    assert Names.of("x").component == "x"


@pytest.mark.parametrize(
    "given", ["", "My-Reward", "2nd", "a--b", "-a", "a-", "a b", "a.b", "ä", "grpo-lightning-", "a/b"]
)
def test_illegal_names(given: str) -> None:
    with pytest.raises(ConfigError, match="is no name of a plugin; use small letters and digits") as raised:
        Names.of(given)
    assert raised.value.value == given


def test_a_name_must_not_be_endless() -> None:
    Names.of("a" * 30)
    with pytest.raises(ConfigError, match="is longer than 30 characters"):
        Names.of("a" * 31)


@pytest.mark.parametrize("given", ["class", "match", "json", "random", "list", "exception", "none"])
def test_names_with_a_meaning_in_python(given: str) -> None:
    with pytest.raises(ConfigError, match="has a meaning in Python"):
        Names.of(given)


def test_names_of_components_are_taken_within_their_kind() -> None:
    known = Registry(Plugins([]))
    with pytest.raises(ConfigError) as raised:
        check_free(Names.of("exact-match"), "reward", known)
    assert str(raised.value).startswith(
        "name: 'exact-match' is taken: grpo_lightning.rewards.exact_match.ExactMatch of grpo-lightning "
    )
    check_free(Names.of("exact-match"), "advantage", known)


def test_class_names_count_too() -> None:
    with pytest.raises(ConfigError, match="is the reward 'function'"):
        check_free(Names.of("function-reward"), "reward", Registry(Plugins([])))


def test_an_installed_distribution_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(tmp_path, monkeypatch)
    site.add("grpo-lightning-broken", "import a_module_that_is_not_there\n")
    with pytest.raises(ConfigError, match="is taken: grpo-lightning-broken is installed"):
        check_free(Names.of("broken"), "reward", Registry(site.plugins()))
