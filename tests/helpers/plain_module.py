"""A module by its settings alone: nothing is loaded."""

from __future__ import annotations

from typing import Any

from grpo_lightning import GRPOModule
from grpo_lightning.policies.causal_lm import CausalLM
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.exact_match import ExactMatch


def module(**settings: Any) -> GRPOModule:
    """The embedded model's module with one reward, and ``settings``."""
    entries = [RewardEntry(reward=ExactMatch())]
    return GRPOModule(policy=CausalLM(model="embedded://tiny-llama"), **{"rewards": entries, **settings})
