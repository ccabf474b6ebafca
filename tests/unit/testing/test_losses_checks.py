"""Every built-in loss passes every check of its kind, with its own example and with other settings."""

from __future__ import annotations

import pytest

from grpo_lightning.testing import Check, Specimen
from helpers.checked import Settings, built_in_cases

OTHERS: Settings = [
    ("clipped", {"dual_clip": 3.0, "log_ratio_limit": 20.0}),
    ("clip_cov", {"fraction": 0.3, "cov_low": -10.0, "cov_high": 10.0}),
    ("kl_cov", {"fraction": 0.3}),
    ("m2po", {"candidates": "gain"}),
    ("dro", {"level": "sequence"}),
    ("topr", {"signal": "reward"}),
    ("decoupled", {"proximal": "interpolated", "cap": 2.0, "above_cap": "truncate"}),
    ("decoupled", {"cap": 1.2}),
    ("dppo_tv", {"log_ratio_penalty": 0.001, "two_sided": True, "cap": 3.0}),
    ("fipo", {"half_life": 2.0, "high_only": False}),
    ("gspo", {"epsilon_low": 0.2, "epsilon_high": 0.2}),
    ("gspo_token", {"epsilon_low": 0.2, "epsilon_high": 0.2}),
    ("luspo", {"epsilon_low": 0.2, "epsilon_high": 0.2}),
]


@pytest.mark.parametrize(("specimen", "check"), built_in_cases("loss", OTHERS))
def test_built_in_conforms(specimen: Specimen, check: Check) -> None:
    check.run(specimen)
