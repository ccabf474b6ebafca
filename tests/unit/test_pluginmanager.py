from __future__ import annotations

from pathlib import Path

import pytest

from grpo_lightning.pluginmanager import BLOCKED, Plugins, cause_of, installed_entry_points, normalised, plugins
from helpers.installed_plugins import Site

HEADER = """
    from grpo_lightning import hookimpl

    @hookimpl
    def grpo_report_header():
        return "{text}"
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(tmp_path, monkeypatch)


def headers(loaded: Plugins) -> list[str]:
    return [text for _, text in loaded.call_each("grpo_report_header")]


def test_builtins_are_a_plugin_like_any_other() -> None:
    loaded = Plugins([])
    assert [plugin.name for plugin in loaded.loaded] == ["builtins"]
    assert loaded.failures == []


def test_plugins_load_in_order_of_distribution_whatever_the_order_of_installation(site: Site) -> None:
    for distribution in ("zeta", "Alpha", "mid_dle"):
        site.add(distribution, HEADER.format(text=distribution))
    loaded = site.plugins()
    assert [plugin.distribution for plugin in loaded.loaded] == ["grpo-lightning", "Alpha", "mid_dle", "zeta"]
    assert headers(loaded) == ["Alpha", "mid_dle", "zeta"]
    assert loaded.loaded[1].owner == "Alpha 1.0"


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        ("import a_module_that_is_not_there", "ModuleNotFoundError: No module named 'a_module_that_is_not_there'"),
        ("from grpo_lightning import no_such_name", "ImportError: cannot import name 'no_such_name'"),
        ("def broken(:", "SyntaxError: invalid syntax"),
        ("raise RuntimeError('two\\nlines')", "RuntimeError: two lines"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("answer = 42", "it implements no hook"),
        (HEADER.format(text="x").replace("grpo_report_header", "grpo_register_rewrd"), "hook 'grpo_register_rewrd'"),
        (HEADER.format(text="x").replace("header()", "header(extra)"), "Argument(s) {'extra'} are declared"),
        (HEADER.format(text="x").replace("@hookimpl", "@hookimpl(wrapper=True)").replace("return", "yield"), "wrapper"),
    ],
)
def test_broken_plugin_is_reported_and_stops_no_other(site: Site, source: str, cause: str) -> None:
    site.add("aaa-good", HEADER.format(text="first"))
    site.add("bbb-broken", source, version="2.1")
    site.add("ccc-good", HEADER.format(text="last"))
    loaded = site.plugins()
    assert headers(loaded) == ["first", "last"]
    (failure,) = loaded.failures
    assert (failure.plugin, failure.distribution) == ("bbb_broken", "bbb-broken 2.1")
    assert cause in failure.cause
    assert str(failure).startswith("plugin 'bbb_broken' of bbb-broken 2.1 did not load: ")
    assert "\n" not in str(failure)
    assert "bbb-broken:bbb_broken" not in dict(loaded.manager.list_name_plugin())


def test_interrupt_while_a_plugin_loads_is_not_swallowed(site: Site) -> None:
    site.add("interrupted", "raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        site.plugins()


def test_optional_unknown_hook_is_allowed(site: Site) -> None:
    site.add("later", HEADER.format(text="x").replace("@hookimpl", "@hookimpl(optionalhook=True)").replace(
        "grpo_report_header", "grpo_of_a_later_version"
    ))  # fmt: skip
    loaded = site.plugins()
    assert [plugin.distribution for plugin in loaded.loaded] == ["grpo-lightning", "later"]
    assert loaded.failures == []


def test_two_distributions_may_give_their_plugins_one_name(site: Site) -> None:
    site.add("one", HEADER.format(text="one"), plugin="rewards")
    site.add("two", HEADER.format(text="two"), plugin="rewards")
    loaded = site.plugins()
    assert headers(loaded) == ["one", "two"]
    assert loaded.failures == []


def test_a_module_named_by_two_distributions_is_registered_once(site: Site) -> None:
    module = site.add("one", HEADER.format(text="one"))
    site.add("two", "")
    (site.folder / "two-1.0.dist-info" / "entry_points.txt").write_text(f"[grpo_lightning]\nagain = {module}\n")
    loaded = site.plugins()
    assert headers(loaded) == ["one"]
    (failure,) = loaded.failures
    assert failure.distribution == "two 1.0"


def test_hook_that_raises_is_reported_once_and_stops_no_other(site: Site) -> None:
    site.add("aaa", HEADER.format(text="x").replace('return "x"', "raise KeyError('lost')"))
    site.add("bbb", HEADER.format(text="fine"))
    loaded = site.plugins()
    assert headers(loaded) == ["fine"]
    assert headers(loaded) == ["fine"]
    (failure,) = loaded.failures
    assert failure.distribution == "aaa 1.0"
    assert failure.cause == "hook grpo_report_header raised KeyError: 'lost'"


def test_a_hook_gets_only_the_arguments_that_it_asks_for(site: Site) -> None:
    body = "from grpo_lightning import hookimpl\n@hookimpl\ndef grpo_configure({argument}):\n    {body}\n"
    site.add("silent", body.format(argument="", body="pass"))
    site.add("writer", body.format(argument="config", body="config['written'] = True"))
    loaded = site.plugins()
    config: dict[str, object] = {}
    loaded.call_each("grpo_configure", config=config)
    assert config == {"written": True}
    assert loaded.failures == []


def test_a_hook_may_be_given_by_specname(site: Site) -> None:
    source = HEADER.format(text="by specname").replace("@hookimpl", '@hookimpl(specname="grpo_report_header")')
    site.add("other-name", source.replace("def grpo_report_header", "def header"))
    assert headers(site.plugins()) == ["by specname"]


@pytest.mark.parametrize("name", ["Some.Plugin", "some_plugin", " x, some-plugin ,"])
def test_blocked_plugin_is_not_imported_and_says_so(site: Site, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    site.add("some-plugin", "raise RuntimeError('imported')")
    monkeypatch.setenv(BLOCKED, name)
    (failure,) = site.plugins().failures
    assert failure.cause == f"it is blocked by the environment variable {BLOCKED}"


def test_the_first_distribution_on_the_path_wins(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site.add("twice", HEADER.format(text="old"))
    newer = tmp_path / "newer"
    newer.mkdir()
    Site(newer, monkeypatch).add("Twice", HEADER.format(text="new"), version="2.0")
    found = [(entry.name, owner.version) for entry, owner in installed_entry_points() if entry.name == "twice"]
    assert found == [("twice", "2.0")]


def test_names_compare_as_package_indexes_do() -> None:
    assert normalised("  Foo__Bar.baz-Qux ") == "foo-bar-baz-qux"


def test_cause_is_one_line() -> None:
    assert cause_of(ValueError("a\n  b")) == "ValueError: a b"
    assert cause_of(ValueError()) == "ValueError: no message"


def test_process_wide_plugins_are_loaded_once() -> None:
    assert plugins() is plugins()
