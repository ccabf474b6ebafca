"""Small configurations of many model families, with every dropout at 0.1."""

from __future__ import annotations

from typing import Any

from transformers import AutoConfig

from helpers.tiny_policy import VOCABULARY

SIZE: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "bos_token_id": None,
    "attention_dropout": 0.1,
}
GPT2: dict[str, Any] = {
    "vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "eos_token_id": 1,
    "bos_token_id": None, "pad_token_id": 0, "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1,
    "summary_first_dropout": 0.1,
}  # fmt: skip
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {"tie_word_embeddings": True},
    "qwen2": {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1},
    "qwen3": {"head_dim": 8},
    "gemma3_text": {"head_dim": 8, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"],
                    "query_pre_attn_scalar": 8},
    "mistral": {"sliding_window": 5, "head_dim": 8},
    "gpt2": GPT2,
    "phi3": {"resid_pdrop": 0.1, "embd_pdrop": 0.1, "original_max_position_embeddings": 64},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2, "router_jitter_noise": 0.1, "sliding_window": None},
}  # fmt: skip
"""Families whose head is a linear layer and nothing else."""
BENT_HEADS: dict[str, dict[str, Any]] = {
    "gemma2": {"head_dim": 8, "sliding_window": 4, "final_logit_softcapping": 5.0, "attn_logit_softcapping": 10.0,
               "query_pre_attn_scalar": 8},
    "cohere": {"logit_scale": 2.0},
    "granite": {"logits_scaling": 0.5},
}  # fmt: skip
"""Families that change logits after the head."""
APART_ONLY: dict[str, dict[str, Any]] = {
    "opt": {"ffn_dim": 48, "word_embed_proj_dim": 32, "dropout": 0.1},
    "bloom": {"n_layer": 2, "n_head": 4, "hidden_dropout": 0.1},
    "lfm2": {"layer_types": ["conv", "full_attention"]},
}
"""Families whose rows run into each other when they are packed: biases by distance in place of positions, convolutions."""


def family_config(family: str) -> Any:
    """A small configuration of ``family``."""
    settings = {**FAMILIES, **BENT_HEADS, **APART_ONLY}[family]
    return AutoConfig.for_model(family, **(settings if family == "gpt2" else {**SIZE, **settings}))
