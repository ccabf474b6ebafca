"""Engines with one fault each: every one fails its own check and no other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from grpo_lightning.engines.base import Completions, GenerationRequest, RowEnd
from grpo_lightning.engines.decode_loop import DecodeLoop
from grpo_lightning.policies.base import Policy
from grpo_lightning.types import Ragged
from helpers.checked import expect_one_failure, own_checks


class Says(DecodeLoop):
    """Declares in words."""

    name = "says"
    addressed = "yes"  # type: ignore[assignment]


class Wide(DecodeLoop):
    """Returns log-probabilities in float64."""

    name = "wide"

    def generate(self, policy: Policy, request: GenerationRequest) -> Completions:
        found = super().generate(policy, request)
        return replace(found, log_probs=Ragged(found.log_probs.values.double(), found.log_probs.offsets))


class NeverFinished(DecodeLoop):
    """Calls every row truncated."""

    name = "never_finished"

    def generate(self, policy: Policy, request: GenerationRequest) -> Completions:
        found = super().generate(policy, replace(request, ended=None))
        return replace(found, finish_Q=torch.ones_like(found.finish_Q))


class Plain(DecodeLoop):
    """Returns log-probabilities without the temperature's part."""

    name = "plain_scores"

    def generate(self, policy: Policy, request: GenerationRequest) -> Completions:
        found = super().generate(policy, replace(request, ended=None))
        return replace(found, log_probs=Ragged(found.log_probs.values * 0.9, found.log_probs.offsets))


class OwnSeeds(DecodeLoop):
    """Draws anew each time that it is asked."""

    name = "own_seeds"
    addressed = False

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def generate(self, policy: Policy, request: GenerationRequest) -> Completions:
        self.calls += 1
        return super().generate(policy, replace(request, seed=request.seed + self.calls))


class ByPlace(DecodeLoop):
    """Draws by a row's place in the batch."""

    name = "by_place"

    def generate(self, policy: Policy, request: GenerationRequest) -> Completions:
        address_QA = request.address_QA.clone()
        address_QA[:, 3] = torch.arange(address_QA.shape[0])
        return super().generate(policy, replace(request, address_QA=address_QA))


class OneDraw(DecodeLoop):
    """Draws the same for all members."""

    name = "one_draw"

    def generate(self, policy: Policy, request: GenerationRequest) -> Completions:
        address_QA = request.address_QA.clone()
        address_QA[:, 3] = 0
        return super().generate(policy, replace(request, address_QA=address_QA))


class TellsTwice(DecodeLoop):
    """Tells of each row twice."""

    name = "tells_twice"

    def generate(self, policy: Policy, request: GenerationRequest) -> Completions:
        def twice(end: RowEnd) -> None:
            assert request.ended is not None
            request.ended(end)
            request.ended(end)

        return super().generate(policy, request if request.ended is None else replace(request, ended=twice))


class Ahead(DecodeLoop):
    """Claims weights of the future."""

    name = "ahead"

    def generate(self, policy: Policy, request: GenerationRequest) -> Completions:
        return replace(super().generate(policy, request), version=request.version + 1)


class LeavesEval(DecodeLoop):
    """Leaves the policy in eval mode."""

    name = "leaves_eval"

    def generate(self, policy: Policy, request: GenerationRequest) -> Completions:
        policy.eval()
        return super().generate(policy, request)


class Shortens(DecodeLoop):
    """Writes shorter limits into the request."""

    name = "shortens"

    def generate(self, policy: Policy, request: GenerationRequest) -> Completions:
        request.limit_Q.clamp_(max=8)
        return super().generate(policy, request)


class Seeds(DecodeLoop):
    """Seeds the generator of all."""

    name = "seeds"

    def generate(self, policy: Policy, request: GenerationRequest) -> Completions:
        torch.manual_seed(77)
        return super().generate(policy, request)


BROKEN: list[Any] = [
    (Says, "declares_how_it_draws", "set addressed = False on the class unless it holds"),
    (Wide, "completes_every_row", "log_probs of torch.float64, not float32"),
    (NeverFinished, "rows_end_where_they_must", "with STOP (0) were due"),
    (Plain, "log_probs_are_those_of_the_policy", "take it from the very distribution that is drawn from"),
    (OwnSeeds, "equal_requests_give_equal_completions", "or set deterministic = False"),
    (ByPlace, "draws_are_addressed", "or set addressed = False"),
    (OneDraw, "draws_differ", "draw with all of request.address_QA"),
    (TellsTwice, "tells_of_ended_rows_once", "more than once for row"),
    (Ahead, "says_its_version", "leave version out"),
    (LeavesEval, "leaves_the_policy_alone", "put back what you change, in a finally"),
    (Shortens, "leaves_inputs_alone", "it changed limit_Q"),
    (Seeds, "leaves_the_process_alone", "it changed torch's random state"),
]


@pytest.mark.parametrize(("component", "check", "teaches"), BROKEN, ids=lambda each: getattr(each, "__name__", None))
def test_fails_only_its_check(component: type, check: str, teaches: str) -> None:
    expect_one_failure(component, check, teaches)


def test_every_check_has_a_component_that_fails_it() -> None:
    assert {check for _, check, _ in BROKEN} == {check.name for check in own_checks("engine")}
