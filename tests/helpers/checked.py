"""Components of one kind against the checks of that kind alone."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import pytest

from grpo_lightning.kinds import KINDS
from grpo_lightning.pluginmanager import Plugins
from grpo_lightning.registry import Registry
from grpo_lightning.testing import Check, Specimen
from grpo_lightning.testing.verdict import fault

BUILT_IN = Registry(Plugins([]))
Settings = list[tuple[str, dict[str, Any]]]
"""Names of built-in components, and arguments beside those of their example."""


def own_checks(kind: str) -> tuple[Check, ...]:
    """The checks of a kind, without those of all kinds."""
    checks: tuple[Check, ...] = import_module(f"grpo_lightning.testing.{KINDS[kind].folder}").CHECKS
    return checks


def built_in_cases(kind: str, others: Settings) -> list[Any]:
    """(specimen, check) for every built-in of a kind and for ``others``, with every check."""
    named: Settings = [(name, {}) for name in sorted(BUILT_IN.entries[kind])]
    cases = []
    for name, arguments in [*named, *others]:
        own = Specimen.of(BUILT_IN.entries[kind][name].load())
        specimen = Specimen(own.component, {**own.arguments, **arguments}, own.columns)
        label = "-".join([name, *map(str, arguments)])
        cases += [pytest.param(specimen, check, id=f"{label}-{check.name}") for check in own_checks(kind)]
    return cases


def failures_of(component: type, arguments: Mapping[str, Any] | None = None) -> dict[str, str]:
    """Message of each check of its kind that the class fails, by the check's name."""
    own = Specimen.of(component)
    specimen = Specimen(component, own.arguments if arguments is None else arguments, own.columns)
    found = {check.name: fault(check, specimen) for check in own_checks(specimen.kind)}
    return {name: message for name, message in found.items() if message is not None}


def expect_one_failure(component: type, check: str, *teaches: str) -> None:
    """The class fails this check of its kind and no other; the message says what must hold, what was found, how to mend it."""
    found = failures_of(component)
    assert list(found) == [check], found
    for part in ("Found: ", "To mend it: ", *teaches):
        assert part in found[check], found[check]
