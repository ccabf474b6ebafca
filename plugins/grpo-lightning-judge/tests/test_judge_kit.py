"""The conformance kit over every reward: against a toy judge on loopback, and as a dry run."""

from __future__ import annotations

import pytest
from grpo_lightning_judge import grpo_register_reward
from grpo_lightning_judge.toy_server import ToyServer

from grpo_lightning.testing.check import Check, Specimen
from grpo_lightning.testing.suites import parametrize_with_checks, run_check

CLASSES = grpo_register_reward()
SERVER = ToyServer()
SERVED = [
    Specimen(
        each,
        {**each.example, "judge": {"base_url": SERVER.base_url, "model": "toy"}},
        each.example_columns,
    )
    for each in CLASSES
]


@pytest.mark.timeout(60)
@parametrize_with_checks(SERVED)
def test_conforms_with_a_server(check: Check, specimen: Specimen) -> None:
    run_check(check, specimen)


@pytest.mark.timeout(60)
@parametrize_with_checks(CLASSES)
def test_conforms_as_a_dry_run(check: Check, specimen: Specimen) -> None:
    run_check(check, specimen)
