"""The conformance kit over both rewards, as they come and with options."""

from __future__ import annotations

import pytest
from grpo_lightning_math import MathAnswer, MathFormat

import grpo_lightning
from grpo_lightning.testing import Check, Specimen, parametrize_with_checks

REWARDS = [
    MathAnswer,
    MathFormat,
    Specimen(MathAnswer, {"boxed": True, "units": False}, MathAnswer.example_columns),
    Specimen(MathAnswer, {"pattern": "<answer>(.*?)</answer>", "parsable": 0.1}, MathAnswer.example_columns),
    Specimen(MathFormat, {"shares": {"thinking": 1.0, "box_after_thinking": 2.0}}),
]


@parametrize_with_checks(REWARDS)
def test_conforms(check: Check, specimen: Specimen) -> None:
    check.run(specimen)


@pytest.mark.parametrize("reward", [MathAnswer, MathFormat])
def test_short_name_is_known_once_the_package_is_installed(reward: type) -> None:
    assert type(grpo_lightning.create("reward", reward.name)) is reward
