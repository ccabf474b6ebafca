"""The classes and the decorator that make pytest tests of the checks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

import grpo_lightning.testing
from grpo_lightning.kinds import KINDS
from grpo_lightning.losses.clipped import ClippedPolicyLoss
from grpo_lightning.rewards.regex import Regex
from grpo_lightning.testing import (
    Check,
    RewardChecks,
    Specimen,
    check_component,
    checks_of,
    parametrize_with_checks,
)
from grpo_lightning.testing.suites import ComponentChecks

PLUGIN = """
    from grpo_lightning.rewards.base import Reward
    from grpo_lightning.testing import {imports}

    class Polite(Reward):
        \"\"\"1 for a completion that holds the word, else 0.\"\"\"

        name = "polite"

        def __init__(self, *, word: str = "please") -> None:
            self.word = word

        def score(self, *, completions: list[str]) -> list[float]:
            return [float(self.word in completion) for completion in completions]
"""


def run(folder: Path, imports: str, code: str, *arguments: str) -> list[str]:
    """Lines that pytest writes about a test file with the plugin and some code of a kit's user."""
    file = folder / "test_polite.py"
    file.write_text(dedent(PLUGIN.format(imports=imports)) + dedent(code))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:hypothesispytest",
        *arguments,
        str(file),
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200)
    return (done.stdout + done.stderr).splitlines()


def names(kind: str) -> list[str]:
    return [check.name for check in checks_of(kind)]


class TestRegex(RewardChecks):
    component = Regex


@parametrize_with_checks([Regex, Specimen(Regex, {"pattern": "[0-9]+", "full": True})])
def test_decorated(check: Check, specimen: Specimen) -> None:
    check.run(specimen)


def test_every_kind_has_a_suite_that_the_package_shows() -> None:
    suites = ComponentChecks.__subclasses__()
    assert {suite.kind for suite in suites} == set(KINDS)
    assert all(getattr(grpo_lightning.testing, suite.__name__) is suite for suite in suites)
    assert not any(suite.__test__ for suite in suites)


def test_all_that_is_named_is_there() -> None:
    assert all(hasattr(grpo_lightning.testing, name) for name in grpo_lightning.testing.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        grpo_lightning.testing.nothing  # noqa: B018


def test_a_subclass_has_a_test_for_each_check(tmp_path: Path) -> None:
    lines = run(
        tmp_path, "RewardChecks", "class PoliteChecks(RewardChecks):\n    component = Polite\n", "--collect-only"
    )
    assert lines[: len(names("reward"))] == [
        f"test_polite.py::PoliteChecks::test_conforms[{name}]" for name in names("reward")
    ]


def test_a_fault_is_told_without_a_traceback(tmp_path: Path) -> None:
    code = """
    class Silent(Polite):
        name = "silent"

    class TestSilent(RewardChecks):
        component = Silent
    """
    lines = run(tmp_path, "RewardChecks", code, "-k", "says_what_it_computes or names_itself")
    text = "\n".join(lines)
    assert "To mend it: write one, a sentence or a formula." in text
    assert "suites.py" not in text
    assert lines[-1].startswith("1 failed, 1 passed")


def test_what_cannot_be_built_is_told_once(tmp_path: Path) -> None:
    code = """
    class TestPolite(RewardChecks):
        component = Polite
        arguments = {"words": "please"}
    """
    lines = run(tmp_path, "RewardChecks", code)
    assert lines[-1].startswith(f"1 failed, {len(names('reward')) - 1} skipped")


def test_a_suite_of_another_kind_is_refused() -> None:
    with pytest.raises(TypeError, match="ClippedPolicyLoss is a loss: subclass LossChecks"):
        type("TestLoss", (RewardChecks,), {"component": ClippedPolicyLoss})


def test_a_suite_without_a_component_is_refused() -> None:
    with pytest.raises(TypeError, match="TestNothing tests nothing: set component"):
        type("TestNothing", (RewardChecks,), {})


def test_arguments_and_columns_of_the_class_go_before_its_own() -> None:
    class Own(RewardChecks):
        component = Regex
        arguments = {"pattern": "a"}  # noqa: RUF012 - as a user of the kit writes it
        columns = {"answer": ["7"]}  # noqa: RUF012

    assert Own.specimen() == Specimen(Regex, {"pattern": "a"}, {"answer": ["7"]})
    assert TestRegex.specimen() == Specimen(Regex, Regex.example, {})


def test_the_guide_runs(tmp_path: Path) -> None:
    code = """
    class TestPolite(RewardChecks):
        component = Polite
        arguments = {"word": "thanks"}
        columns = {"answer": ["yes", None]}

    @parametrize_with_checks([Polite, Specimen(Polite, {"word": "kindly"})])
    def test_conforms(check, specimen):
        check.run(specimen)
    """
    lines = run(tmp_path, "RewardChecks, Specimen, parametrize_with_checks", code)
    assert lines[-1].startswith(f"{3 * len(names('reward'))} passed"), lines[-1]


def test_without_pytest_all_but_the_suites_work() -> None:
    code = """
    import sys
    sys.modules["pytest"] = None
    from grpo_lightning.testing import Specimen, check_component
    from grpo_lightning.rewards.regex import Regex
    assert all(outcome.passed for outcome in check_component(Specimen(Regex, {"pattern": "a"})))
    try:
        from grpo_lightning.testing import RewardChecks
    except ImportError as error:
        assert "pip install pytest" in str(error), error
    else:
        raise AssertionError("it was imported")
    """
    done = subprocess.run([sys.executable, "-c", dedent(code)], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr


def test_a_component_that_cannot_be_built_has_one_outcome() -> None:
    (outcome,) = check_component(Specimen(Regex, {}))
    assert not outcome.passed
    assert outcome.error is not None
    assert "arguments = {'pattern': ...} in the test" in outcome.error
