"""Every built-in correction passes every check of its kind, with its own example and with other settings."""

from __future__ import annotations

import pytest

from grpo_lightning.testing import Check, Specimen
from helpers.checked import Settings, built_in_cases

OTHERS: Settings = [
    ("truncated_importance", {"level": "sequence", "floor": 0.5, "cap": 5.0}),
    ("truncated_importance", {"normalise": True}),
    ("icepop", {"level": "sequence", "denominator": "remaining"}),
    ("sequence_rejection", {"statistic": "k3"}),
    ("sequence_rejection", {"statistic": "k2", "over": "max", "limit": 0.1}),
    ("sequence_rejection", {"over": "step", "low": 0.8, "high": 1.2}),
    ("sequence_rejection", {"over": "sum", "denominator": "remaining"}),
    ("off_policy_sequence_mask", {"level": "step", "denominator": "remaining"}),
    ("tv_mask", {"policy": "current"}),
    ("high_entropy", {"fraction": 0.5, "denominator": "remaining"}),
]


@pytest.mark.parametrize(("specimen", "check"), built_in_cases("correction", OTHERS))
def test_built_in_conforms(specimen: Specimen, check: Check) -> None:
    check.run(specimen)
