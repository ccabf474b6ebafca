"""A model whose sizes can be added up by hand, as a folder without weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grpo_lightning import GRPOModule
from grpo_lightning.planning.choice import Choice
from grpo_lightning.policies.causal_lm import CausalLM
from grpo_lightning.policies.embedded import character_tokenizer
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.exact_match import ExactMatch

OUTSIDE = 2 * 50 * 8 + 8
"""Parameters of embedding, head and last norm."""
LAYER = 64 + 32 + 32 + 64 + 3 * 8 * 16 + 2 * 8
"""Queries 8 x 8, keys and values 8 x 4 each, output 8 x 8, three of 8 x 16, two norms of 8."""
PARAMETERS = OUTSIDE + 2 * LAYER
TENSORS = 3 + 2 * 9


def folder(path: Path) -> Path:
    """Two layers of width 8, 2 heads, 1 key head, 50 ids; head and embedding apart. No weights are written."""
    from transformers import LlamaConfig

    LlamaConfig(
        architectures=["LlamaForCausalLM"],
        vocab_size=50,
        hidden_size=8,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        tie_word_embeddings=False,
        max_position_embeddings=64,
    ).save_pretrained(path)
    character_tokenizer().save_pretrained(path)
    return path


def module(path: Path, **settings: Any) -> GRPOModule:
    """A module that trains it, its policy prepared."""
    made = GRPOModule(
        policy=CausalLM(model=str(folder(path))),
        rewards=[RewardEntry(reward=ExactMatch())],
        **{"group_size": 3, "prompts_per_rollout": 2, **settings},
    )
    made.policy.prepare()
    return made


def choice(**changed: Any) -> Choice:
    """One process, everything trained in float32."""
    return Choice(
        **{
            "processes": 1,
            "strategy": "auto",
            "precision": "32-true",
            "micro_batch_tokens": 1000,
            "activation_checkpointing": False,
            "lora": None,
            "batch_rows": 100,
            **changed,
        }
    )
