"""Rewards with one fault each: every one fails its own check and no other."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pytest
import torch

from grpo_lightning.rewards.base import Reward
from grpo_lightning.testing import rewards
from grpo_lightning.types import Turn
from helpers.failures import assert_fails_only, failures


class Misspelt(Reward):
    """Asks for what there is under another name."""

    name = "misspelt"

    def score(self, *, completion: list[str]) -> list[float]:
        return [1.0] * len(completion)


class WithoutColumn(Reward):
    """Reads a column that it does not tell of."""

    name = "without_column"

    def score(self, *, completions: list[str], solution: list[str]) -> list[float]:
        return [float(a == b) for a, b in zip(completions, solution, strict=True)]


class OneShort(Reward):
    """Forgets the last row."""

    name = "one_short"

    def score(self, *, completions: list[str]) -> list[float]:
        return [1.0] * (len(completions) - 1)


class NotFinite(Reward):
    """Divides by nothing."""

    name = "not_finite"

    def score(self, *, completions: list[str]) -> list[float]:
        return [float("nan")] * len(completions)


class LastTurnOnly(Reward):
    """Gives a list with one number, however many turns there are."""

    name = "last_turn_only"

    def score(self, *, turns: Sequence[Sequence[Turn]]) -> list[list[float]]:
        return [[float(len(row[-1].text))] for row in turns]


class FirstLetter(Reward):
    """Looks at a letter that may not be there."""

    name = "first_letter"

    def score(self, *, completions: list[str]) -> list[float]:
        return [float(completion.strip()[0].isdigit()) for completion in completions]


class ASCIIOnly(Reward):
    """Takes every text for ASCII."""

    name = "ascii_only"

    def score(self, *, completions: list[str]) -> list[float]:
        return [float(len(completion.encode("ascii"))) for completion in completions]


class Backtracks(Reward):
    """Tries all ways in which a text falls into parts."""

    name = "backtracks"

    def score(self, *, completions: list[str]) -> list[float]:
        return [float(re.fullmatch(r"((\w)+)+\.", completion[-5000:]) is not None) for completion in completions]


class NeedsValue(Reward):
    """Takes for granted that every row has an answer."""

    name = "needs_value"
    example_columns: ClassVar[Mapping[str, Sequence[Any]]] = {"answer": ["7", "12"]}

    def score(self, *, completions: list[str], answer: list[str]) -> list[float]:
        return [float(right.strip() in completion) for completion, right in zip(completions, answer, strict=True)]


class Moody(Reward):
    """Scores differently at every call."""

    name = "moody"

    def __init__(self) -> None:
        self._calls = itertools.count()

    def score(self, *, completions: list[str]) -> list[float]:
        return [float(next(self._calls)) for _ in completions]


class MoodyOnPurpose(Moody):
    """The same, which says so."""

    name = "moody_on_purpose"
    deterministic = False


class FirstOfItsPrompt(Reward):
    """1 for the first row of each prompt, wherever it stands."""

    name = "first_of_its_prompt"

    def score(self, *, prompts: list[str]) -> list[float]:
        return [float(prompt not in prompts[:row]) for row, prompt in enumerate(prompts)]


class Crowded(Reward):
    """Counts equal completions among all groups."""

    name = "crowded"

    def score(self, *, completions: list[str]) -> list[float]:
        return [float(completions.count(completion)) for completion in completions]


class Clears(Reward):
    """Empties the list of completions when it is through."""

    name = "clears"

    def score(self, *, completions: list[str]) -> list[float]:
        scores = [float(len(completion)) for completion in completions]
        completions.clear()
        return scores


class WithGradient(Reward):
    """Returns what a network of its own gave, gradient included."""

    name = "with_gradient"

    def score(self, *, completions: list[str]) -> list[Any]:
        return [torch.ones((), requires_grad=True) for _ in completions]


class NoAnswer(Reward):
    """Has no answer where there is no number."""

    name = "no_answer"

    def score(self, *, completions: list[str]) -> list[float]:
        return [1.0] * len(completions)

    def answer(self, completion: str) -> Any:
        found = re.search(r"\d+", completion)
        return None if found is None else found.group()


class DrawsForAll(Reward):
    """Draws from the random numbers that all share."""

    name = "draws_for_all"

    def score(self, *, completions: list[str]) -> list[float]:
        random.random()
        return [1.0] * len(completions)


class Ranks(Reward):
    """The rank of a completion's length in its group, and everything it needs for that: a sound one."""

    name = "ranks"

    async def score(self, *, completions: list[str], groups: list[int]) -> list[float | None]:
        lengths = list(zip(groups, map(len, completions), strict=True))
        return [float(sum(g == group and n < length for g, n in lengths)) for group, length in lengths]


BROKEN = [
    (Misspelt, "asks_for_what_there_is", "did you mean 'completions'"),
    (WithoutColumn, "asks_for_what_there_is", "example_columns = {'answer': ['7', None]}"),
    (OneShort, "scores_every_row", "returned 11 scores for 12 rows"),
    (NotFinite, "scores_every_row", "NaN and infinity are no scores"),
    (LastTurnOnly, "scores_several_turns", "a list with one of these for each turn"),
    (FirstLetter, "scores_empty_completions", "It raised IndexError"),
    (ASCIIOnly, "scores_any_text", "It raised UnicodeEncodeError"),
    (Backtracks, "is_quick_with_long_completions", "look for a regular expression with nested repetitions"),
    (NeedsValue, "takes_missing_values", "return None for such a row"),
    (Moody, "is_deterministic", "says deterministic = False on the class"),
    (FirstOfItsPrompt, "does_not_depend_on_the_order", "ask for groups"),
    (Crowded, "scores_groups_by_themselves", "compare inside groups only"),
    (Clears, "leaves_its_arguments_alone", "copy before you sort, pop or write"),
    (WithGradient, "carries_no_gradient", "return score.item(), or detach it"),
    (NoAnswer, "answers_with_text", "return '' where a completion has no answer"),
    (DrawsForAll, "leaves_the_process_alone", "make a generator of your own from a seed"),
]


@pytest.mark.parametrize(("component", "check", "teaches"), BROKEN, ids=lambda each: getattr(each, "__name__", None))
def test_fails_only_its_check(component: type, check: str, teaches: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewards, "SECONDS", 0.5)
    assert_fails_only(component, check, teaches)


def test_every_check_has_a_component_that_fails_it() -> None:
    assert {check for _, check, _ in BROKEN} == {check.name for check in rewards.CHECKS}


@pytest.mark.parametrize("component", [Ranks, MoodyOnPurpose])
def test_a_good_one_passes(component: type) -> None:
    assert failures(component) == {}
