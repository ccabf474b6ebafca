"""Auxiliary losses with one fault each: every one fails its own check and no other."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from grpo_lightning.auxiliary.supervised import Supervised
from grpo_lightning.policies.base import Policy
from grpo_lightning.types import Prompt, Rollouts
from helpers.checked import expect_one_failure, failures_of, own_checks


class Imitates(Supervised):
    """Supervised learning on a column ``text``: a sound one."""

    name = "imitates"
    example: ClassVar[Mapping[str, Any]] = {"target": "text"}
    example_columns: ClassVar[Mapping[str, Sequence[Any]]] = {"text": ["yes", "of course", "no"]}


class Oversure(Imitates):
    """Claims log-probabilities above 0."""

    name = "oversure"

    def rows(self, policy: Policy, prompts: Sequence[Prompt]) -> Rollouts:
        made = super().rows(policy, prompts)
        return replace(made, behaviour_log_probs_S=made.behaviour_log_probs_S + 1.0)


class Numbers(Imitates):
    """Numbers its groups through all calls."""

    name = "numbers"

    def __init__(self, *, target: str = "answer") -> None:
        super().__init__(target=target)
        self.seen = 0

    def rows(self, policy: Policy, prompts: Sequence[Prompt]) -> Rollouts:
        made = super().rows(policy, prompts)
        self.seen += len(prompts)
        return replace(made, group_R=made.group_R + self.seen)


class Averages(Imitates):
    """Normalises by a mean length."""

    name = "averages"

    def normaliser(self, rows: Rollouts) -> float:
        return float(rows.lengths_R.double().mean())


class Column(Imitates):
    """Returns a column."""

    name = "column"

    def terms(self, log_probs_S: Tensor) -> Tensor:
        return super().terms(log_probs_S)[:, None]


class Focuses(Imitates):
    """Weighs steps against the hardest of the micro-batch."""

    name = "focuses"

    def terms(self, log_probs_S: Tensor) -> Tensor:
        return super().terms(log_probs_S) * (log_probs_S / log_probs_S.amin()).detach()


class Detached(Imitates):
    """Loses the gradient."""

    name = "detached"

    def terms(self, log_probs_S: Tensor) -> Tensor:
        return super().terms(log_probs_S).detach()


class InPlace(Imitates):
    """Writes into the rows that it counts."""

    name = "in_place"

    def normaliser(self, rows: Rollouts) -> float:
        rows.finish_R.fill_(1)
        return super().normaliser(rows)


class Draws(Imitates):
    """Draws a number that nobody uses."""

    name = "draws"

    def terms(self, log_probs_S: Tensor) -> Tensor:
        random.random()
        return super().terms(log_probs_S)


BROKEN: list[Any] = [
    (Oversure, "makes_legal_rows", "a behaviour log-probability is above 0"),
    (Numbers, "rows_are_the_same_again", "keep nothing between calls"),
    (Averages, "normaliser_counts_rows", "return a count of rows or steps, and no mean"),
    (Column, "gives_one_term_a_step", "micro-batches sum the terms, and the normaliser divides"),
    (Focuses, "goes_step_by_step", "take no mean, sum or maximum over steps"),
    (Detached, "trains_the_policy", "keep log_probs_S in the graph"),
    (InPlace, "leaves_inputs_alone", "it changed finish_R"),
    (Draws, "leaves_the_process_alone", "changed the random state of Python's random"),
]


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"prompt_R": torch.tensor([0, 1, 3])}, "prompt_R points beyond the 3 prompts"),
        ({"temperature_R": torch.zeros(3)}, "a temperature is not positive"),
        ({"temperature_R": torch.ones(3, dtype=torch.float64)}, "temperature_R is (3,) of torch.float64 and not (3,)"),
        ({"turn_S": torch.zeros(1, dtype=torch.int64)}, "turn_S is (1,)"),
    ],
)
def test_faults_of_rows_are_named(changed: dict[str, Tensor], fault: str) -> None:
    class Faulty(Imitates):
        def rows(self, policy: Policy, prompts: Sequence[Prompt]) -> Rollouts:
            return replace(super().rows(policy, prompts), **changed)

    assert fault in failures_of(Faulty)["makes_legal_rows"]


@pytest.mark.parametrize(("component", "check", "teaches"), BROKEN, ids=lambda each: getattr(each, "__name__", None))
def test_fails_only_its_check(component: type, check: str, teaches: str) -> None:
    expect_one_failure(component, check, teaches)


def test_every_check_has_a_component_that_fails_it() -> None:
    assert {check for _, check, _ in BROKEN} == {check.name for check in own_checks("auxiliary")}


@pytest.mark.parametrize("component", [Imitates])
def test_a_good_one_passes(component: type) -> None:
    assert failures_of(component) == {}
