"""Every built-in policy passes every check of its kind, with its own example and with other settings."""

from __future__ import annotations

import pytest

from grpo_lightning.policies.lora import LoRA
from grpo_lightning.testing import Check, Specimen
from helpers.checked import Settings, built_in_cases

OTHERS: Settings = [
    ("causal_lm", {"layout": "packed"}),
    ("causal_lm", {"head_logits": 100}),
    ("causal_lm", {"lora": LoRA(rank=4)}),
]


@pytest.mark.parametrize(("specimen", "check"), built_in_cases("policy", OTHERS))
def test_built_in_conforms(specimen: Specimen, check: Check) -> None:
    check.run(specimen)
