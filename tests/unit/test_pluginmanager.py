from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from grpo_lightning import __version__, hookspecs
from grpo_lightning.plugin_switches import ALLOWED, BLOCKED, TRACE
from grpo_lightning.pluginmanager import Plugins, cause_of, installed_entry_points, plugins
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
    loaded = site.plugins()
    failure = loaded.failures[0]
    assert failure.cause == f"it is blocked by the environment variable {BLOCKED}"
    assert failure.wanted
    assert failure not in loaded.faults()


def test_the_first_distribution_on_the_path_wins(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site.add("twice", HEADER.format(text="old"))
    newer = tmp_path / "newer"
    newer.mkdir()
    Site(newer, monkeypatch).add("Twice", HEADER.format(text="new"), version="2.0")
    found = [(entry.name, owner.version) for entry, owner in installed_entry_points() if entry.name == "twice"]
    assert found == [("twice", "2.0")]


def test_only_allowed_plugins_are_imported(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.add("wanted", HEADER.format(text="wanted"))
    site.add("other", "raise RuntimeError('imported')")
    monkeypatch.setenv(ALLOWED, "Wanted")
    loaded = site.plugins()
    assert headers(loaded) == ["wanted"]
    (failure,) = loaded.failures
    assert (failure.plugin, failure.cause) == ("other", f"the environment variable {ALLOWED} does not name it")
    assert loaded.faults() == []


def test_an_empty_list_allows_the_builtins_alone(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.add("other", HEADER.format(text="other"))
    monkeypatch.setenv(ALLOWED, "")
    assert headers(site.plugins()) == []


@pytest.mark.parametrize("variable", [ALLOWED, BLOCKED])
def test_a_name_that_no_plugin_has_is_a_fault_with_near_names(
    site: Site, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    site.add("polite-words", HEADER.format(text="x"))
    monkeypatch.setenv(variable, "polite-wods")
    loaded = site.plugins()
    (fault,) = loaded.faults()
    assert str(fault) == (
        f"plugin 'polite-wods' of the environment variable {variable} did not load: no plugin of that name is "
        "installed; did you mean 'polite-words'?"
    )


@pytest.mark.parametrize(
    ("asked", "fix"), [(hookspecs.API + 1, "update grpo-lightning"), (0, "update old"), ("x", "update old")]
)
def test_a_plugin_of_another_api_is_refused(site: Site, asked: object, fix: str) -> None:
    site.add("old", f"GRPO_LIGHTNING_API = {asked!r}\n" + dedent(HEADER.format(text="x")))
    loaded = site.plugins()
    assert headers(loaded) == []
    (failure,) = loaded.failures
    assert failure.cause == f"it asks for plugin API {asked!r}, and this version has {hookspecs.API}; {fix}"


def test_a_plugin_of_this_api_loads(site: Site) -> None:
    site.add("same", f"GRPO_LIGHTNING_API = {hookspecs.API}\n" + dedent(HEADER.format(text="x")))
    assert headers(site.plugins()) == ["x"]


def test_loading_is_traced_where_asked(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    site.add("good", HEADER.format(text="x"))
    site.add("bad", "import a_module_that_is_not_there")
    monkeypatch.setenv(TRACE, "1")
    headers(site.plugins())
    lines = capsys.readouterr().err.splitlines()
    assert all(line.startswith("plugins: ") for line in lines)
    assert any(line.startswith("plugins: imported good of good 1.0 in ") for line in lines)
    assert "plugins: registered 'good' of good 1.0: grpo_report_header" in lines
    assert "plugins: called grpo_report_header of good 1.0" in lines
    assert any("plugin 'bad' of bad 1.0 did not load: ModuleNotFoundError" in line for line in lines)


def test_versions_are_those_of_what_loaded(site: Site) -> None:
    site.add("good", HEADER.format(text="x"), version="1.5")
    site.add("bad", "import a_module_that_is_not_there")
    assert site.plugins().versions() == {"grpo-lightning": __version__, "good": "1.5"}


def test_cause_is_one_line() -> None:
    assert cause_of(ValueError("a\n  b")) == "ValueError: a b"
    assert cause_of(ValueError()) == "ValueError: no message"


def test_process_wide_plugins_are_loaded_once() -> None:
    assert plugins() is plugins()
