"""Components with one fault each, of those that every kind is checked for: each fails its own check and no other."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from grpo_lightning.registry import import_path
from grpo_lightning.rewards.base import Reward
from grpo_lightning.testing import general
from helpers.failures import assert_fails_only, failures


class Good(Reward):
    """1 for every row."""

    name = "good"

    def score(self, *, completions: list[str]) -> list[float]:
        return [1.0] * len(completions)


class NeedsWords(Good):
    """Has an argument without a default, and gives no example."""

    name = "needs_words"

    def __init__(self, *, words: int) -> None:
        self.words = words


class CamelCase(Good):
    """Has a name that is no name."""

    name = "CamelCase"


class WithoutName(Good):
    """Has the name of its parent."""


class WithoutDocstring(Good):
    name = "without_docstring"


def hidden() -> type:
    class Hidden(Good):
        """Lies inside a function."""

        name = "hidden"

    return Hidden


class Positional(Good):
    """Takes an argument by position."""

    name = "positional"

    def __init__(self, words: int = 3) -> None:
        self.words = words


class Untyped(Good):
    """Does not say what its argument is."""

    name = "untyped"

    def __init__(self, *, words=3) -> None:  # type: ignore[no-untyped-def]
        self.words = words


class WordFormula(Good):
    """Gives a formula that is none."""

    name = "word_formula"

    def formula(self) -> Any:
        return "r = 1"


class Reads(Good):
    """Reads a file when it is built."""

    name = "reads"

    def __init__(self) -> None:
        self.text = Path(__file__).read_text()[:10]


class Sorts(Good):
    """Sorts the list that it is given."""

    name = "sorts"
    example: ClassVar[Mapping[str, Any]] = {"words": ["please", "kindly"]}

    def __init__(self, *, words: list[str]) -> None:
        words.sort()
        self.words = words


class Numbered(Good):
    """Counts how many of it were built."""

    name = "numbered"
    numbers = itertools.count()

    def __init__(self) -> None:
        self.number = next(self.numbers)


class AnyText(Good):
    """Leaves it to YAML whether an answer is a text or a number."""

    name = "any_text"
    example: ClassVar[Mapping[str, Any]] = {"answers": {"first": "5"}}

    def __init__(self, *, answers: dict[str, Any]) -> None:
        self.answers = answers


class TakesAll(Good):
    """Takes whatever it is given."""

    name = "takes_all"

    def __init__(self, **options: int) -> None:
        self.options = options


class KeepsLambda(Good):
    """Keeps a function that cannot be pickled."""

    name = "keeps_lambda"

    def __init__(self) -> None:
        self.rule = lambda text: len(text)


class Seeds(Good):
    """Seeds torch for everyone."""

    name = "seeds"

    def __init__(self) -> None:
        torch.manual_seed(0)


class SetsVariable(Good):
    """Sets an environment variable."""

    name = "sets_variable"

    def __init__(self) -> None:
        os.environ["GRPO_LIGHTNING_TEST_OF_THE_KIT"] = "1"


class OddState(Good):
    """Keeps a fraction in its state."""

    name = "odd_state"

    def state_dict(self) -> dict[str, Any]:
        return {"share": [Fraction(1, 3)]}


class HalfResumed(Good):
    """Comes back from a checkpoint with another count."""

    name = "half_resumed"

    def __init__(self) -> None:
        self.count = 0

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.count = state["count"] + 1


HEAVY = "helpers.heavy_reward.Heavy"  # imported in a test only, so that this module is light
BROKEN = [
    (NeedsWords, "can_be_built", "set example = {'words': ...} on the class"),
    (CamelCase, "names_itself", "write name = 'camel_case' in the class"),
    (WithoutName, "names_itself", "it has none of its own"),
    (WithoutDocstring, "says_what_it_computes", "write one, a sentence or a formula"),
    (hidden(), "lies_at_top_level", "define the class at the top level of a module"),
    (Positional, "takes_typed_keywords", "write def __init__(self, *, ...)"),
    (Untyped, "takes_typed_keywords", "write words: int, say"),
    (HEAVY, "imports_nothing_heavy", "it imports scipy. To mend it: import it in the method that needs it"),
    (WordFormula, "shows_a_formula", "return Formula(text=..., latex=...)"),
    (Reads, "loads_nothing", "load in the method that the kind has for it"),
    (Sorts, "leaves_its_settings_alone", "copy it first"),
    (Numbered, "is_built_alike", "no clock, no random number and no counter"),
    (AnyText, "survives_configuration", "write str | Any"),
    (TakesAll, "refuses_unknown_arguments", "** would swallow a misspelt one"),
    (KeepsLambda, "can_be_pickled", "keep no lambda"),
    (Seeds, "leaves_the_process_alone_when_built", "building it changed torch's random state"),
    (SetsVariable, "leaves_the_process_alone_when_built", "give env= to a subprocess instead"),
    (OddState, "has_plain_state", "state['share'][0] is of type Fraction"),
    (HalfResumed, "takes_back_its_state", "take in load_state_dict every key"),
]


@pytest.mark.parametrize(("component", "check", "teaches"), BROKEN, ids=lambda each: getattr(each, "__name__", None))
def test_fails_only_its_check(component: type | str, check: str, teaches: str) -> None:
    assert_fails_only(import_path(component) if isinstance(component, str) else component, check, teaches)


def test_every_check_has_a_component_that_fails_it() -> None:
    assert {check for _, check, _ in BROKEN} == {check.name for check in general.CHECKS}


@pytest.mark.parametrize("path", [f"{__name__}.Good", f"{HEAVY}OnPurpose"])
def test_a_good_one_passes(path: str) -> None:
    assert failures(import_path(path)) == {}


def test_what_a_component_changed_is_put_back() -> None:
    state = torch.get_rng_state()
    failures(Seeds)
    failures(SetsVariable)
    assert torch.equal(state, torch.get_rng_state())
    assert "GRPO_LIGHTNING_TEST_OF_THE_KIT" not in os.environ
