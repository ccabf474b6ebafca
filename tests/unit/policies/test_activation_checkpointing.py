"""Layers that are run again give the same numbers and keep less."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from grpo_lightning.errors import ConfigError
from grpo_lightning.policies.activation_checkpointing import checkpoint_layers
from grpo_lightning.policies.causal_lm import CausalLM
from helpers.families import APART_ONLY, BENT_HEADS, FAMILIES, family_config
from helpers.hand_loss import example_rows, to_collected
from helpers.tiny_policy import gradients, load_policy, relative, save_model, tiny_policy


def pass_through(policy: CausalLM, rows: Any) -> tuple[Tensor, dict[str, Tensor], int]:
    """Log-probabilities, gradients, and numbers kept for the backward pass."""
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        kept[tensor.data_ptr()] = tensor.numel()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = policy(rows)["log_prob"]
    (output * torch.arange(1, 1 + len(output))).sum().backward()
    return output.detach(), gradients(policy), sum(kept.values())


@pytest.mark.parametrize("family", [*FAMILIES, *BENT_HEADS, *APART_ONLY])
def test_numbers_are_those_of_a_pass_that_keeps_all(family: str, tmp_path: Any) -> None:
    folder = save_model(tmp_path, family_config(family))
    plain, again = load_policy(folder), load_policy(folder, activation_checkpointing=True)
    assert plain.layout == again.layout
    rows = to_collected(example_rows(plain.causal_lm)).rollouts
    wanted, found = pass_through(plain, rows), pass_through(again, rows)
    assert torch.equal(found[0], wanted[0])
    assert relative(found[1], wanted[1]) < 1e-12
    assert found[2] < 0.7 * wanted[2]


@pytest.mark.parametrize("layout", ["shared", "padded", "packed"])
def test_every_layout_and_adapters(layout: str) -> None:
    rows = to_collected(example_rows(tiny_policy().causal_lm)).rollouts
    from grpo_lightning.policies.lora import LoRA

    for lora in (None, LoRA(rank=2)):
        plain = tiny_policy(layout=layout, lora=lora)
        again = tiny_policy(layout=layout, lora=lora, activation_checkpointing=True)
        wanted, found = pass_through(plain, rows), pass_through(again, rows)
        assert torch.equal(found[0], wanted[0])
        assert relative(found[1], wanted[1]) < 1e-12


def test_a_reference_made_of_it_has_layers_of_its_own() -> None:
    policy = tiny_policy(activation_checkpointing=True)
    rows = to_collected(example_rows(policy.causal_lm)).rollouts
    policy.freeze_reference()
    before = policy(rows, weights="reference")["log_prob"].detach()
    with torch.no_grad():
        for parameter in policy.causal_lm.parameters():
            parameter.add_(0.05)
    assert torch.equal(policy(rows, weights="reference")["log_prob"], before)
    assert float((policy(rows)["log_prob"] - before).abs().max()) > 1e-3


def test_a_model_without_layers_is_refused() -> None:
    with pytest.raises(ConfigError, match="activation_checkpointing"):
        checkpoint_layers(nn.Sequential(nn.Linear(2, 2)))
