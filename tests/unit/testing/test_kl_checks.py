"""Every built-in kl passes every check of its kind, with its own example and with other settings."""

from __future__ import annotations

import pytest

from grpo_lightning.testing import Check, Specimen
from helpers.checked import Settings, built_in_cases

OTHERS: Settings = [
    ("k2", {"limit": 0.1}),
    ("k3", {"log_ratio_limit": 0.3, "limit": 10.0}),
]


@pytest.mark.parametrize(("specimen", "check"), built_in_cases("kl", OTHERS))
def test_built_in_conforms(specimen: Specimen, check: Check) -> None:
    check.run(specimen)
