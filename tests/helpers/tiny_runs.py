"""Small runs on the embedded model, through Lightning's Trainer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch

from grpo_lightning import GRPODataModule, GRPOModule
from grpo_lightning.kl.base import KLTerm
from grpo_lightning.kl.k2 import K2
from grpo_lightning.policies.causal_lm import CausalLM
from grpo_lightning.prompts.sorting import Sorting
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.function import FunctionReward
from grpo_lightning.settings import EvaluationSet, Generation, Warmup


def digits_in_place(completions: list[str], answer: list[str]) -> list[float]:
    """Share of the answer's digits that stand where they should: varies from the first rollout on."""
    return [
        sum(a == b for a, b in zip(completion, right, strict=False)) / len(right)
        for completion, right in zip(completions, answer, strict=True)
    ]


def tiny_module(**changed: Any) -> GRPOModule:
    """A module on ``embedded://tiny-llama`` with two warm-up updates, several micro-batches and updates a rollout."""
    settings: dict[str, Any] = {
        "policy": CausalLM(model="embedded://tiny-llama", dtype=changed.pop("dtype", "float32")),
        "rewards": [RewardEntry(reward=FunctionReward(function=digits_in_place))],
        "group_size": 4,
        "prompts_per_rollout": 4,
        "updates_per_rollout": 2,
        "epochs_per_rollout": 2,
        "micro_batch_tokens": 40,
        "generation": Generation(max_new_tokens=5),
        "kl": KLTerm(estimator=K2(), weight=0.01),
        "warmup": Warmup(updates=2, rows=8),
        "learning_rate": 1e-3,
        "seed": 3,
    }
    return GRPOModule(**settings | changed)


def tiny_data(**changed: Any) -> GRPODataModule:
    """Sorting three digits, with a held-out set."""
    settings: dict[str, Any] = {
        "train": Sorting(count=30, length=3),
        "validation": {"held_out": EvaluationSet(source=Sorting(count=6, length=3, split="held_out"), samples=2)},
    }
    return GRPODataModule(**settings | changed)


def tiny_trainer(folder: Path, max_steps: int, **changed: Any) -> pl.Trainer:
    """A quiet Trainer on one CPU."""
    settings: dict[str, Any] = {
        "max_steps": max_steps,
        "accelerator": "cpu",
        "devices": 1,
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "num_sanity_val_steps": 0,
        "default_root_dir": folder,
    }
    if any(isinstance(callback, pl.callbacks.ModelCheckpoint) for callback in changed.get("callbacks", [])):
        settings["enable_checkpointing"] = True
    return pl.Trainer(**settings | changed)


def weights(module: GRPOModule) -> torch.Tensor:
    """All parameters, end to end."""
    return torch.cat([parameter.detach().reshape(-1) for parameter in module.parameters()])
