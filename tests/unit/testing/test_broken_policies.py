"""Policies with one fault each: every one fails its own check and no other."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from grpo_lightning.policies.base import Weights
from grpo_lightning.policies.causal_lm import CausalLM
from grpo_lightning.types import Rollouts
from helpers.checked import expect_one_failure, own_checks

Output = dict[str, Tensor]


class Scored(CausalLM):
    """Changes what the forward pass sees and gives; nothing, by itself."""

    name = "scored"

    def seen(self, rows: Rollouts) -> Rollouts:
        return rows

    def given(self, output: Output, rows: Rollouts) -> Output:
        return output

    def forward(
        self,
        rows: Rollouts,
        functionals: Collection[str] = (),
        weights: Weights = "current",
        observed: Collection[str] = (),
    ) -> Output:
        return self.given(super().forward(self.seen(rows), functionals, weights, observed), rows)


class NeedsWeights(CausalLM):
    """Knows its context only when the weights are there."""

    name = "needs_weights"

    @property
    def context_length(self) -> int:
        return int(self.model.config.max_position_embeddings)


class LoadsAgain(CausalLM):
    """Builds weights at every call."""

    name = "loads_again"

    def load(self) -> None:
        self.model = None
        super().load()


class LowerCase(CausalLM):
    """Decodes to lower case."""

    name = "lower_case"

    def decode(self, steps: Sequence[int]) -> str:
        return super().decode(steps).lower()


class SharesReference(CausalLM):
    """Takes the live weights as the reference."""

    name = "shares_reference"

    def freeze_reference(self) -> None:
        self._reference = [self.model]


class ForgetsReference(CausalLM):
    """Does not take over a reference."""

    name = "forgets_reference"

    def load_reference(self, state: Mapping[str, Tensor]) -> None:
        self.freeze_reference()


class ForgetsWeights(CausalLM):
    """Does not load weights."""

    name = "forgets_weights"

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return None


class ExportsNothing(CausalLM):
    """Makes an empty folder."""

    name = "exports_nothing"

    def export(self, folder: Path) -> None:
        folder.mkdir(parents=True)


class Column(Scored):
    """Gives log-probabilities as a column."""

    name = "column"

    def given(self, output: Output, rows: Rollouts) -> Output:
        return {**output, "log_prob": output["log_prob"][:, None]}


class GivesMore(Scored):
    """Gives something that nobody asked for."""

    name = "gives_more"

    def given(self, output: Output, rows: Rollouts) -> Output:
        return {**output, "logits": torch.zeros(output["log_prob"].shape[0], 99)}


class WithoutGradient(Scored):
    """Loses the gradient."""

    name = "without_gradient"

    def given(self, output: Output, rows: Rollouts) -> Output:
        return {name: values.detach() for name, values in output.items()}


class Dropout(Scored):
    """Computes something else in train mode."""

    name = "dropout"

    def given(self, output: Output, rows: Rollouts) -> Output:
        return {**output, "log_prob": output["log_prob"] * (0.9 if self.training else 1.0)}


class ScoresAll(Scored):
    """Scores the environment's steps too."""

    name = "scores_all"

    def seen(self, rows: Rollouts) -> Rollouts:
        return replace(rows, trainable_S=torch.ones_like(rows.trainable_S))


class CountsRows(Scored):
    """Depends on how many rows there are."""

    name = "counts_rows"

    def given(self, output: Output, rows: Rollouts) -> Output:
        return {**output, "log_prob": output["log_prob"] * (1 + 0.01 * len(rows))}


class IgnoresTemperature(Scored):
    """Scores everything at temperature 1."""

    name = "ignores_temperature"

    def seen(self, rows: Rollouts) -> Rollouts:
        return replace(rows, temperature_R=torch.ones_like(rows.temperature_R))


class InPlace(Scored):
    """Writes into its rows."""

    name = "in_place"

    def seen(self, rows: Rollouts) -> Rollouts:
        rows.behaviour_log_probs_S.fill_(-1.0)
        return rows


class Draws(Scored):
    """Draws a number that nobody uses."""

    name = "draws"

    def seen(self, rows: Rollouts) -> Rollouts:
        torch.rand(1)
        return rows


BROKEN: list[Any] = [
    (NeedsWeights, "prepares_before_it_loads", "read tokenizer and configuration in prepare()"),
    (LoadsAgain, "loads_once", "return at once where weights are there"),
    (LowerCase, "text_comes_back", "'x' for 'X'"),
    (SharesReference, "reference_stays", "copy the weights in freeze_reference()"),
    (
        ForgetsReference,
        "reference_comes_back",
        "give all tensors of the reference in reference_state(), and load them all",
    ),
    (ForgetsWeights, "weights_come_back", "keep every weight in a parameter or a persistent buffer"),
    (ExportsNothing, "exports_what_it_is", "no file there"),
    (Column, "gives_a_log_prob_a_trainable_step", "gather what each trainable step chose"),
    (GivesMore, "gives_only_what_was_asked", "return no logits"),
    (WithoutGradient, "gradient_reaches_its_parameters", "run the forward pass with gradient"),
    (Dropout, "train_and_eval_agree", "set every dropout probability to 0 in load()"),
    (ScoresAll, "masked_steps_take_no_part", "index by rows.trainable_S"),
    (CountsRows, "rows_do_not_mix", "keep padding out of attention and positions"),
    (IgnoresTemperature, "temperatures_and_supports_count", "divide by rows.temperature_R[rows.row_S]"),
    (InPlace, "leaves_inputs_alone", "it changed behaviour_log_probs_S"),
    (Draws, "leaves_the_process_alone", "changed torch's random state"),
]


@pytest.mark.parametrize(("component", "check", "teaches"), BROKEN, ids=lambda each: getattr(each, "__name__", None))
def test_fails_only_its_check(component: type, check: str, teaches: str) -> None:
    expect_one_failure(component, check, teaches)


def test_every_check_has_a_component_that_fails_it() -> None:
    assert {check for _, check, _ in BROKEN} == {check.name for check in own_checks("policy")}
