from __future__ import annotations

import pytest

from grpo_lightning.plugin_switches import ALLOWED, BLOCKED, STRICT, TRACE, Switches, normalised


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in (ALLOWED, BLOCKED, STRICT, TRACE):
        monkeypatch.delenv(variable, raising=False)


def test_names_compare_as_package_indexes_do() -> None:
    assert normalised("  Foo__Bar.baz-Qux ") == "foo-bar-baz-qux"


def test_nothing_set_loads_everything_and_says_nothing() -> None:
    assert Switches.of_environment() == Switches(None, frozenset(), False, False)


def test_lists_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALLOWED, "A_b, c.d,")
    monkeypatch.setenv(BLOCKED, " E ")
    switches = Switches.of_environment()
    assert switches.allowed == {"a-b", "c-d"}
    assert switches.blocked == {"e"}
    assert list(switches.unknown({"a-b"})) == [(ALLOWED, "c-d"), (BLOCKED, "e")]


@pytest.mark.parametrize(("value", "on"), [("1", True), ("yes", True), ("0", False), ("", False)])
def test_switches_are_on_unless_0_or_empty(monkeypatch: pytest.MonkeyPatch, value: str, on: bool) -> None:
    monkeypatch.setenv(STRICT, value)
    monkeypatch.setenv(TRACE, value)
    switches = Switches.of_environment()
    assert (switches.strict, switches.trace) == (on, on)
