from __future__ import annotations

import inspect
import sys
from pathlib import Path

import pytest

import grpo_lightning
from grpo_lightning.errors import ConfigError
from grpo_lightning.kinds import KINDS
from grpo_lightning.registry import Entry, LazyComponent, Registry, build, check_arguments, import_path, registry
from helpers.installed_plugins import REWARD, Site


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(tmp_path, monkeypatch)


class Options:
    """Takes two options."""

    def __init__(self, *, width: int, height: int = 1) -> None:
        self.width, self.height = width, height


def polite(completions: list[str]) -> list[float]:
    """1 for a completion that says please."""
    return [float("please" in completion) for completion in completions]


ENTRIES = list(Registry(registry().source))


# ------------------------------------------------------------------------------------------------ the built-ins


def test_every_builtin_registers() -> None:
    ours = [failure for failure in registry().failures if failure.distribution.startswith("grpo-lightning")]
    assert ours == []
    assert {entry.kind for entry in ENTRIES} == set(KINDS)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry.kind}-{entry.name}")
def test_component_says_what_it_is(entry: Entry) -> None:
    component = entry.load()
    assert issubclass(component, KINDS[entry.kind].base_class())
    assert component.__dict__["name"] == entry.name
    assert not inspect.isabstract(component)
    assert entry.summary, "a component has a docstring"
    assert inspect.cleandoc(component.__doc__ or "").partition("\n")[0] == entry.summary
    assert entry.path == f"{component.__module__}.{component.__qualname__}"


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry.kind}-{entry.name}")
def test_component_takes_typed_keywords(entry: Entry) -> None:
    component = entry.load()
    if component.__init__ is object.__init__:  # type: ignore[misc]
        return
    for parameter in inspect.signature(component).parameters.values():
        assert parameter.kind is parameter.KEYWORD_ONLY, f"{entry.path}: {parameter}"
        assert parameter.annotation is not parameter.empty, f"{entry.path}: {parameter}"


def test_entries_come_by_kind_then_name() -> None:
    order = [(list(KINDS).index(entry.kind), entry.name) for entry in ENTRIES]
    assert order == sorted(order)


def test_found_by_name_class_name_and_path() -> None:
    found = {registry().find("advantage", name) for name in (
        "leave_one_out", "LeaveOneOut", "grpo_lightning.advantages.leave_one_out.LeaveOneOut",
    )}  # fmt: skip
    assert len(found) == 1
    assert None not in found


# ------------------------------------------------------------------------------------------------ strangers


def test_stranger_registers_as_builtins_do(site: Site) -> None:
    module = site.add_reward("grpo-lightning-kind", "kindness", "Kindness")
    found = Registry(site.plugins())
    entry = found.find("reward", "kindness")
    assert entry == Entry("reward", "kindness", f"{module}.Kindness", "Scores kindness.", "grpo-lightning-kind", "1.0")
    assert found.resolve("reward", "Kindness") is sys.modules[module].Kindness


def test_duplicate_name_is_refused_naming_both(site: Site) -> None:
    site.add_reward("aaa", "kindness", "First")
    site.add_reward("bbb", "kindness", "Second")
    found = Registry(site.plugins())
    entry = found.find("reward", "kindness")
    assert entry is not None
    assert entry.distribution == "aaa"
    (failure,) = found.failures
    assert failure.distribution == "bbb 1.0"
    assert failure.cause == (
        "reward 'kindness' (bbb.Second of bbb) has the name of 'kindness' (aaa.First of aaa); "
        "one of them must be renamed"
    )


def test_duplicate_class_name_is_refused(site: Site) -> None:
    site.add_reward("aaa", "one", "Kindness")
    site.add_reward("bbb", "two", "Kindness")
    found = Registry(site.plugins())
    assert found.find("reward", "two") is None
    assert "aaa.Kindness of aaa" in found.failures[0].cause
    assert "bbb.Kindness of bbb" in found.failures[0].cause


def test_builtin_cannot_be_replaced(site: Site) -> None:
    site.add_reward("aaa", "exact_match", "Mine")
    found = Registry(site.plugins())
    entry = found.find("reward", "exact_match")
    assert entry is not None
    assert entry.distribution == "grpo-lightning"
    assert "exact_match" in found.failures[0].cause


@pytest.mark.parametrize(
    ("returned", "cause"),
    [
        ("'Kindness'", "hook grpo_register_reward returned 'Kindness', which is no Reward"),
        ("None", "returned None, which is no Reward"),
        ("Kindness()", "which is no Reward"),
        ("dict", "returned <class 'dict'>, which is no Reward"),
        ("[Kindness, 7]", "returned 7, which is no Reward"),
        ("type('Nameless', (Kindness,), {})", "whose name is None"),
        ("type('Bad', (Kindness,), {'name': 'Bad-Name'})", "whose name is 'Bad-Name'"),
        ("type('Inner', (Kindness,), {'name': 'inner', '__qualname__': 'Outer.Inner'})", "top level"),
        ("Reward", "returned grpo_lightning.rewards.base.Reward, which does not define score"),
        ("LazyComponent('Bad Name', 'a.b', 'c')", "whose name is 'Bad Name'"),
    ],
)
def test_nonsense_from_a_hook_is_reported(site: Site, returned: str, cause: str) -> None:
    source = REWARD.format(name="kindness", cls="Kindness").replace("return Kindness", f"return {returned}")
    site.add("nonsense", source.replace("import hookimpl", "import LazyComponent, hookimpl"))
    site.add_reward("other", "other", "Other")
    found = Registry(site.plugins())
    (failure,) = found.failures
    assert failure.distribution == "nonsense 1.0"
    assert cause in failure.cause
    assert found.find("reward", "other") is not None
    assert (found.find("reward", "kindness") is not None) == returned.startswith("[Kindness")


def test_hook_that_raises_leaves_the_other_kinds_of_the_plugin(site: Site) -> None:
    raising = "\n    @hookimpl\n    def grpo_register_loss():\n        raise OSError('no file')\n"
    site.add("half", REWARD.format(name="kindness", cls="Kindness") + raising)
    found = Registry(site.plugins())
    assert found.find("reward", "kindness") is not None
    assert found.failures[0].cause == "hook grpo_register_loss raised OSError: no file"


LAZY = """
    from grpo_lightning import LazyComponent, hookimpl

    @hookimpl
    def grpo_register_reward():
        return LazyComponent("kindness", "{path}", "Scores kindness.")
"""


def test_lazy_component_is_imported_when_it_is_used(site: Site) -> None:
    heavy = site.add_reward("heavy", "unused", "Kindness")
    (site.folder / "heavy-1.0.dist-info" / "entry_points.txt").write_text("")
    site.add("lazy", LAZY.format(path="heavy.Kindness"))
    found = Registry(site.plugins())
    assert heavy not in sys.modules
    assert found.resolve("reward", "kindness") is sys.modules[heavy].Kindness


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("not_there.Kindness", "of lazy cannot be imported (ModuleNotFoundError: No module named 'not_there')"),
        ("json.Kindness", "of lazy cannot be imported (ImportError: module 'json' has no 'Kindness')"),
        ("json.JSONDecoder", "of lazy leads to json.JSONDecoder, which is no Reward"),
    ],
)
def test_lazy_component_that_leads_nowhere(site: Site, path: str, reason: str) -> None:
    site.add("lazy", LAZY.format(path=path))
    with pytest.raises(ConfigError) as caught:
        Registry(site.plugins()).resolve("reward", "kindness", "model.rewards.0.reward")
    assert str(caught.value).startswith("model.rewards.0.reward: 'kindness' ")
    assert reason in str(caught.value)


# ------------------------------------------------------------------------------------------------ unknown names


def test_unknown_name_has_near_matches_and_broken_plugins(site: Site) -> None:
    site.add("broken", "import not_there")
    site.add_reward("good", "kindness", "Kindness")
    with pytest.raises(ConfigError) as caught:
        Registry(site.plugins()).resolve("reward", "kindnes", "model.rewards.0.reward")
    text = str(caught.value)
    assert text.startswith("model.rewards.0.reward: 'kindnes' is no known reward ")
    assert "plugin 'broken' of broken 1.0 did not load: ModuleNotFoundError" in text
    assert "did you mean 'kindness'?" in text


def test_name_of_another_kind_is_recognised() -> None:
    with pytest.raises(ConfigError, match="it is the name of a component of kind 'sampler'"):
        registry().resolve("loss", "top_k")


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("not_there.at_all", "cannot be imported (ModuleNotFoundError: No module named 'not_there')"),
        ("json.not_there", "cannot be imported (ImportError: module 'json' has no 'not_there')"),
        ("..", "cannot be imported (ImportError: '..' is no import path)"),
        ("json.JSONDecoder", "is no reward; give a subclass of Reward or a function"),
        ("string.digits", "is no reward; give a subclass of Reward or a function"),
    ],
)
def test_import_path_that_leads_nowhere(path: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        registry().resolve("reward", path)
    assert reason in str(caught.value)


def test_module_that_raises_while_it_is_imported(site: Site) -> None:
    site.add("explosive", "raise AttributeError('boom')")
    with pytest.raises(ConfigError, match=r"cannot be imported \(AttributeError: boom\)"):
        registry().resolve("reward", "explosive.Kindness")


def test_only_rewards_may_be_functions() -> None:
    assert registry().resolve("reward", "json.dumps") is import_path("json.dumps")
    with pytest.raises(ConfigError, match=r"'json\.dumps' is no loss; give a subclass of PolicyLoss"):
        registry().resolve("loss", "json.dumps")


# ------------------------------------------------------------------------------------------------ create


def test_create_builds_what_the_yaml_would() -> None:
    assert grpo_lightning.create("sampler", "temperature", temperature=0.5).temperature == 0.5
    assert type(grpo_lightning.create("advantage", "LeaveOneOut")).name == "leave_one_out"


def test_create_takes_a_function_as_a_reward() -> None:
    reward = grpo_lightning.create("reward", f"{__name__}.polite")
    assert list(reward.score(completions=["please", "no"])) == [1.0, 0.0]


@pytest.mark.parametrize(
    ("kind", "name", "arguments", "message"),
    [
        ("adventage", "group_norm", {}, "kind: 'adventage' is no kind of component; did you mean 'advantage'?"),
        ("advantage", "leave_one", {}, "advantage: 'leave_one' is no known advantage; did you mean 'leave_one_out'"),
        ("advantage", "xyz", {}, "known: gdpo, gigpo, gpg, group_norm, leave_one_out,"),
        ("sampler", "top_k", {"kk": 3}, "sampler.kk: 3 is no option of 'top_k'"),
        ("advantage", "leave_one_out", {"ddof": 1}, "advantage.ddof: 1 is no option of 'leave_one_out'; it takes none"),
        ("sampler", "temperature", {"temperature": -1.0}, "sampler.temperature: -1.0 is outside (0, inf)"),
    ],
)
def test_create_says_what_is_wrong(kind: str, name: str, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        grpo_lightning.create(kind, name, **arguments)
    assert message in str(caught.value)


def test_check_arguments() -> None:
    check_arguments(Options, {"width": 3}, "model.size")
    with pytest.raises(ConfigError, match=r"model\.size\.heigth: 2 is no option of 'Options'; did you mean 'height'"):
        check_arguments(Options, {"width": 3, "heigth": 2}, "model.size")
    with pytest.raises(ConfigError, match=r"model\.size\.width: None is missing: 'Options' needs it; set it"):
        check_arguments(Options, {}, "model.size")


def test_build_takes_a_component_or_a_name() -> None:
    sampler = grpo_lightning.create("sampler", "greedy")
    assert build("sampler", sampler, "sampler") is sampler
    assert build("sampler", "greedy", "sampler").name == "greedy"
    assert list(build("reward", f"{__name__}.polite", "reward").score(completions=["please"])) == [1.0]
    with pytest.raises(ConfigError, match=r"^model\.sampler: 'greed' is no known sampler"):
        build("sampler", "greed", "model.sampler")
    with pytest.raises(ConfigError, match=r"^rewards\.0\.maximum: None is missing: 'length' needs it"):
        build("reward", "length", "rewards.0")


def test_lazy_component_is_public() -> None:
    assert grpo_lightning.LazyComponent is LazyComponent
