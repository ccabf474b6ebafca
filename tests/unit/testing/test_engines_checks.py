"""Every built-in engine passes every check of its kind, with its own example and with other settings.

``vllm`` asks servers, which the model of these checks is not on: ``tests/unit/engines/test_vllm.py`` and
``tests/integration/test_vllm_server.py`` have what it must do.
"""

from __future__ import annotations

import pytest

from grpo_lightning.engines.base import Completions, GenerationRequest
from grpo_lightning.engines.decode_loop import DecodeLoop
from grpo_lightning.policies.base import Policy
from grpo_lightning.testing import Check, Specimen
from helpers.checked import Settings, built_in_cases, failures_of

OTHERS: Settings = [
    ("decode_loop", {"batch_rows": 3}),
]


CASES = [case for case in built_in_cases("engine", OTHERS) if not case.values[0].component.keeps_weights]


@pytest.mark.parametrize(("specimen", "check"), CASES)
def test_built_in_conforms(specimen: Specimen, check: Check) -> None:
    check.run(specimen)


class OwnWeights(DecodeLoop):
    """Samples with weights that it was given."""

    name = "own_weights"
    keeps_weights = True
    given: Policy | None = None
    open = 0

    def refresh(self, policy: Policy, version: int) -> None:
        self.given = policy
        OwnWeights.open += 1

    def generate(self, policy: Policy, request: GenerationRequest) -> Completions:
        assert self.given is policy
        return super().generate(self.given, request)

    def close(self) -> None:
        OwnWeights.open -= 1


def test_an_engine_with_weights_of_its_own_is_given_them_and_closed() -> None:
    assert failures_of(OwnWeights) == {}
    assert OwnWeights.open == 0
