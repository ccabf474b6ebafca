"""How long a row can be: what bounds an update's micro-batches, and a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_lightning.data.datamodule import GRPODataModule

if TYPE_CHECKING:
    from grpo_lightning.module import GRPOModule


def longest_row(module: GRPOModule, data: GRPODataModule) -> int:
    """Tokens that a row can have at most, its prompt included; the data are loaded and encoded."""
    longest = max(prompts.longest for prompts in data.train_sets.values())
    turns = module.environment.max_turns
    row = longest + turns * module.generation.max_new_tokens + (turns - 1) * module.environment.max_observation_tokens
    return min(row, module.policy.context_length)
