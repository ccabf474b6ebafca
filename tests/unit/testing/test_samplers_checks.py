"""Every built-in sampler passes every check of its kind, with its own example and with other settings."""

from __future__ import annotations

import pytest

from grpo_lightning.testing import Check, Specimen
from helpers.checked import Settings, built_in_cases

OTHERS: Settings = [
    ("temperature", {"temperature": 0.6}),
    ("top_k", {"k": 50}),
    ("top_p", {"p": 0.5, "temperature": 1.7}),
    ("top_p", {"p": 1.0}),
    ("min_p", {"min_p": 0.4, "temperature": 0.5}),
    ("min_p", {"min_p": 0.0}),
]


@pytest.mark.parametrize(("specimen", "check"), built_in_cases("sampler", OTHERS))
def test_built_in_conforms(specimen: Specimen, check: Check) -> None:
    check.run(specimen)
