from __future__ import annotations

import torch

from grpo_lightning.samplers.temperature import Temperature


def test_everything_may_be_chosen() -> None:
    assert Temperature(temperature=0.5).support(torch.zeros(2, 5, dtype=torch.float64)) is None
    assert Temperature.explores


def test_arguments_of_generate_switch_its_other_filters_off() -> None:
    expected = {"do_sample": True, "temperature": 0.5, "top_k": 0, "top_p": 1.0}
    assert Temperature(temperature=0.5).generate_arguments() == expected
