"""Every built-in auxiliary passes every check of its kind, with its own example and with other settings."""

from __future__ import annotations

import pytest

from grpo_lightning.testing import Check, Specimen
from helpers.checked import Settings, built_in_cases

OTHERS: Settings = [
    ("supervised", {"weighting": "phi"}),
]


@pytest.mark.parametrize(("specimen", "check"), built_in_cases("auxiliary", OTHERS))
def test_built_in_conforms(specimen: Specimen, check: Check) -> None:
    check.run(specimen)
