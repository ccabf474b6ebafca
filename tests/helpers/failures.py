"""What the conformance kit finds wrong with a component."""

from __future__ import annotations

from grpo_lightning.testing import Specimen, check_component


def failures(component: type) -> dict[str, str]:
    """Message of each check that the class fails, by the check's name."""
    return {each.check.name: each.error or "" for each in check_component(Specimen.of(component)) if not each.passed}


def assert_fails_only(component: type, check: str, teaches: str) -> None:
    """The class fails this check and no other, with a message that says ``teaches``."""
    found = failures(component)
    assert list(found) == [check], found
    assert teaches in found[check], found[check]
