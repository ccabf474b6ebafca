"""Samplers with one fault each: every one fails its own check and no other."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from grpo_lightning.errors import ConfigError
from grpo_lightning.samplers.base import Sampler
from helpers.checked import expect_one_failure, failures_of, own_checks


class Likely(Sampler):
    """Every id at least a tenth as probable as the best, which ``generate`` is told too: a sound one."""

    name = "likely"

    def support(self, log_probs_QV: Tensor) -> Tensor | None:
        return (log_probs_QV - log_probs_QV.amax(-1, keepdim=True)).exp() >= 0.1

    def generate_arguments(self) -> dict[str, Any]:
        return {**super().generate_arguments(), "min_p": 0.1}


class EvenIds(Sampler):
    """Everything but id 1, which ``generate`` cannot be told, and says so: a sound one."""

    name = "even_ids"

    def support(self, log_probs_QV: Tensor) -> Tensor | None:
        mask_QV = torch.ones_like(log_probs_QV, dtype=torch.bool)
        mask_QV[:, 1] = False
        return mask_QV

    def generate_arguments(self) -> dict[str, Any]:
        raise ConfigError("sampler", self.name, "has no arguments of generate", "use another engine")


class Cold(Likely):
    """Takes any temperature."""

    name = "cold"

    def __init__(self, *, temperature: float = 1.0) -> None:
        self.temperature = temperature


class Ones(Likely):
    """Returns numbers."""

    name = "ones"

    def support(self, log_probs_QV: Tensor) -> Tensor | None:
        mask_QV = super().support(log_probs_QV)
        assert mask_QV is not None
        return mask_QV.to(torch.uint8)


class Threshold(Likely):
    """Keeps ids above a fixed probability, of which there may be none."""

    name = "threshold"

    def support(self, log_probs_QV: Tensor) -> Tensor | None:
        return log_probs_QV.exp() >= 0.15

    def generate_arguments(self) -> dict[str, Any]:
        raise ConfigError("sampler", self.name, "has no arguments of generate", "use another engine")


class Flattens(Likely):
    """Flattens the probabilities where they lie."""

    name = "flattens"

    def support(self, log_probs_QV: Tensor) -> Tensor | None:
        mask_QV = super().support(log_probs_QV)
        log_probs_QV.mul_(0.5)
        return mask_QV


class Cools(Likely):
    """Lowers its temperature after each step."""

    name = "cools"

    def support(self, log_probs_QV: Tensor) -> Tensor | None:
        self.temperature *= 0.9
        return super().support(log_probs_QV)


class BestOfBatch(Likely):
    """Compares with the best id of the whole batch, if the row's own best is not kept by that."""

    name = "best_of_batch"

    def support(self, log_probs_QV: Tensor) -> Tensor | None:
        best_Q1 = log_probs_QV.amax(-1, keepdim=True)
        return ((log_probs_QV - best_Q1.mean()).exp() >= 0.1) | (log_probs_QV == best_Q1)

    def generate_arguments(self) -> dict[str, Any]:
        raise ConfigError("sampler", self.name, "has no arguments of generate", "use another engine")


class Narrows(Likely):
    """Narrows its support with every call."""

    name = "narrows"

    def __init__(self, *, temperature: float = 1.0) -> None:
        super().__init__(temperature=temperature)
        self.share = 0.1

    def support(self, log_probs_QV: Tensor) -> Tensor | None:
        mask_QV = (log_probs_QV - log_probs_QV.amax(-1, keepdim=True)).exp() >= self.share
        self.share = min(1.0, 2 * self.share)
        return mask_QV


class SecretlyGreedy(Likely):
    """Keeps the best id, and does not say that it cannot explore."""

    name = "secretly_greedy"

    def support(self, log_probs_QV: Tensor) -> Tensor | None:
        best_Q1 = log_probs_QV.argmax(-1, keepdim=True)
        return torch.zeros_like(log_probs_QV, dtype=torch.bool).scatter_(-1, best_Q1, True)

    def generate_arguments(self) -> dict[str, Any]:
        return {"do_sample": False}


class TellsNothing(Likely):
    """Tells ``generate`` to sample from everything."""

    name = "tells_nothing"

    def generate_arguments(self) -> dict[str, Any]:
        return Sampler.generate_arguments(self)


class Draws(Likely):
    """Draws a number that nobody uses."""

    name = "draws"

    def support(self, log_probs_QV: Tensor) -> Tensor | None:
        torch.rand(1)
        return super().support(log_probs_QV)


BROKEN: list[Any] = [
    (Cold, "temperature_is_checked", "call super().__init__(temperature=temperature)"),
    (Ones, "support_is_a_mask", "return the mask of what may be chosen"),
    (Threshold, "support_is_never_empty", "always keep the most probable id"),
    (Flattens, "draws_follow_the_distribution", "it must not change log_probs_QV in place"),
    (Cools, "draws_follow_the_distribution", "support() must not change the sampler"),
    (BestOfBatch, "rows_do_not_mix", "reduce over the last dimension only"),
    (Narrows, "repeats_itself", "keep nothing between calls"),
    (SecretlyGreedy, "explores_as_declared", "set explores = False"),
    (TellsNothing, "generate_samples_the_same", "override generate_arguments"),
    (Draws, "leaves_the_process_alone", "changed torch's random state"),
]


@pytest.mark.parametrize(("component", "check", "teaches"), BROKEN, ids=lambda each: getattr(each, "__name__", None))
def test_fails_only_its_check(component: type, check: str, teaches: str) -> None:
    expect_one_failure(component, check, teaches)


def test_every_check_has_a_component_that_fails_it() -> None:
    assert {check for _, check, _ in BROKEN} == {check.name for check in own_checks("sampler")}


@pytest.mark.parametrize("component", [Likely, EvenIds])
def test_a_good_one_passes(component: type) -> None:
    assert failures_of(component) == {}
