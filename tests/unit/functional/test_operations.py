"""Operations of a transformer, by hand and by torch's own counter."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForCausalLM

from grpo_lightning.functional.operations import (
    AttentionSize,
    ModelSize,
    backward_operations,
    forward_operations,
    head_backward_operations,
    head_operations,
    keys_read,
    model_size,
)
from helpers.families import APART_ONLY, BENT_HEADS, FAMILIES, family_config

COUNTED = sorted([*FAMILIES, *BENT_HEADS, "opt", "bloom"])


def integers(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64)


def small_model(family: str, **changed: Any) -> Any:
    config = family_config(family)
    config._experts_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager", **changed)
    return model.eval()


@pytest.mark.parametrize("window", [None, 1, 2, 3, 5, 100])
def test_keys_read_by_a_plain_loop(window: int | None) -> None:
    lengths, pasts = [1, 4, 3, 0, 7], [0, 0, 5, 2, 1]
    wanted = sum(
        min(past + query + 1, past + query + 1 if window is None else window)
        for length, past in zip(lengths, pasts, strict=True)
        for query in range(length)
    )
    assert keys_read(integers(*lengths), integers(*pasts), window) == wanted


def test_operations_by_hand() -> None:
    # 10 body weights of which 6 are trained, a frozen head of 7 x 2, one layer of 3 heads of depth 2, and one that looks
    # back on 2 keys only. Two sequences: 3 tokens, and 1 token after 4.
    full, window = AttentionSize(3, 2, 2), AttentionSize(3, 2, 2, window=2)
    size = ModelSize(body_weights=10, body_trained=6, head_weights=14, head_trained=0, attention=(full, window))
    lengths, past = integers(3, 1), integers(0, 4)
    # keys: 1 + 2 + 3 + 5 = 11 in full, 1 + 2 + 2 + 2 = 7 in the window
    attention = 4 * 3 * 2 * (11 + 7)
    assert forward_operations(size, lengths, past) == 2 * 10 * 4 + attention
    assert backward_operations(size, lengths, past) == 2 * (10 + 6) * 4 + 2 * attention
    assert head_operations(size, 5) == 2 * 7 * 2 * 5
    assert head_backward_operations(size, 5) == 2 * 7 * 2 * 5


def test_values_of_another_depth() -> None:
    size = ModelSize(0, 0, 0, 0, (AttentionSize(2, 6, 4),))
    # queries times keys: 2 * 2 * 6 a pair; weights times values: 2 * 2 * 4
    assert forward_operations(size, integers(1), integers(2)) == (24 + 16) * 3


def test_trained_weights_make_backward_twice_forward() -> None:
    size = model_size(small_model("llama"), None)
    lengths, past = integers(5, 9), integers(0, 3)
    assert backward_operations(size, lengths, past) == 2 * forward_operations(size, lengths, past)


def test_size_of_the_small_llama_by_hand() -> None:
    model = small_model("llama")
    size = model_size(model, model.get_output_embeddings())
    # a layer: queries and output 32 x 32, keys and values 16 x 32, three matrices of 48 x 32
    layer = 2 * 32 * 32 + 2 * 16 * 32 + 3 * 48 * 32
    assert (size.body_weights, size.body_trained) == (2 * layer, 2 * layer)
    assert (size.head_weights, size.head_trained) == (99 * 32, 99 * 32)
    assert size.attention == (AttentionSize(4, 8, 8), AttentionSize(4, 8, 8))


def test_experts_count_as_often_as_a_token_meets_them() -> None:
    model = small_model("mixtral")
    size = model_size(model, model.get_output_embeddings())
    # 4 experts of which a token meets 2, each three matrices of 48 x 32; the router is 4 x 32
    layer = 2 * 32 * 32 + 2 * 16 * 32 + 2 * 3 * 48 * 32 + 4 * 32
    assert size.body_weights == 2 * layer


@pytest.mark.parametrize(("family", "windows"), [("qwen2", [None, 4]), ("gemma3_text", [4, None]), ("mistral", [5, 5])])
def test_windows_of_layers(family: str, windows: list[int | None]) -> None:
    size = model_size(small_model(family), None)
    assert [layer.window for layer in size.attention] == windows


def test_convolutions_and_layers_without_attention() -> None:
    assert "lfm2" in APART_ONLY
    size = model_size(small_model("lfm2"), None)
    assert len(size.attention) == 1, "of two layers, one attends"


def test_frozen_weights_have_no_gradient_of_their_own() -> None:
    model = nn.Sequential(nn.Linear(3, 5, bias=False), nn.Linear(5, 2, bias=False))
    model[0].weight.requires_grad_(False)
    size = model_size(model, None)
    assert (size.body_weights, size.body_trained) == (15 + 10, 10)


@pytest.mark.parametrize("family", COUNTED)
def test_forward_as_torch_counts_it(family: str) -> None:
    """Torch counts every pair of query and key, those that the mask takes away too."""
    model = small_model(family)
    size, rows, width = model_size(model, model.get_output_embeddings()), 3, 7
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(input_ids=torch.arange(rows * width).reshape(rows, width), use_cache=False)
    everything = sum(2 * each.heads * (each.depth + each.value_depth) * rows * width**2 for each in size.attention)
    causal = sum(
        2 * each.heads * (each.depth + each.value_depth) * rows * keys_read(integers(width), integers(0), each.window)
        for each in size.attention
    )
    ours = forward_operations(size, integers(*[width] * rows), integers(*[0] * rows))
    # what makes the angles of rotary positions: a product of depth/2 and the positions
    angles = counter.get_total_flops() - (ours - causal + everything) - head_operations(size, rows * width)
    assert 0 <= angles <= 2 * 2 * rows * width * 4
    assert angles == 0 or family not in ("gpt2", "opt", "bloom")


@pytest.mark.parametrize("family", ["llama", "gpt2", "qwen3", "phi3", "opt"])
def test_backward_as_torch_counts_it(family: str) -> None:
    model = small_model(family)
    size, width = model_size(model, model.get_output_embeddings()), 6
    output = model(input_ids=torch.arange(width)[None], use_cache=False).logits.sum()
    with FlopCounterMode(display=False) as counter:
        output.backward()
    pairs = {False: keys_read(integers(width), integers(0)), True: width**2}
    more = sum(4 * each.heads * (each.depth + each.value_depth) for each in size.attention) * (
        pairs[True] - pairs[False]
    )
    ours = backward_operations(size, integers(width), integers(0)) + head_backward_operations(size, width)
    assert counter.get_total_flops() == ours + more
