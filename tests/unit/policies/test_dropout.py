"""Everything random about training is switched off."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers import AutoModelForCausalLM, Gemma3Config

from grpo_lightning.policies.dropout import disable_in_config, disable_in_modules
from helpers.families import FAMILIES, family_config


@pytest.mark.parametrize("family", FAMILIES)
def test_probabilities_of_a_config(family: str) -> None:
    config = family_config(family)
    before = config.to_dict()
    disable_in_config(config)
    after = config.to_dict()
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {name for name in before if before[name] == 0.1 and ("drop" in name or "jitter" in name)}
    assert all(after[name] == 0.0 for name in changed)


def test_nested_configs() -> None:
    config = Gemma3Config(text_config={"attention_dropout": 0.3}, vision_config={"attention_dropout": 0.2})
    disable_in_config(config)
    assert config.text_config.attention_dropout == 0.0
    assert config.vision_config.attention_dropout == 0.0


def test_what_is_no_probability_stays() -> None:
    config = family_config("gpt2")
    config.use_dropout, config.classifier_dropout, config.dropout_kind = True, None, "plain"
    disable_in_config(config)
    assert (config.use_dropout, config.classifier_dropout, config.dropout_kind) == (True, None, "plain")


class Noisy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Dropout(0.2), nn.Dropout2d(0.3), nn.AlphaDropout(0.4), nn.Linear(2, 2))
        self.attention_dropout, self.resid_pdrop, self.layerdrop, self.jitter_noise = 0.1, 1, 0.5, 0.01
        self.use_dropout = True


def test_layers_and_numbers_of_modules() -> None:
    module = Noisy()
    disable_in_modules(module)
    assert [layer.p for layer in module.inner[:3]] == [0.0, 0.0, 0.0]
    assert (module.attention_dropout, module.resid_pdrop, module.layerdrop, module.jitter_noise) == (0.0,) * 4
    assert module.use_dropout is True


@pytest.mark.parametrize("family", ["gpt2", "mixtral", "phi3"])
def test_a_model_built_with_dropout_is_still_in_train_mode(family: str) -> None:
    model = AutoModelForCausalLM.from_config(family_config(family)).train()
    ids = torch.arange(3, 30)[None]
    assert not torch.equal(model(input_ids=ids).logits, model(input_ids=ids).logits)
    disable_in_modules(model)
    assert torch.equal(model(input_ids=ids).logits, model(input_ids=ids).logits)
