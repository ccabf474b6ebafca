"""Runs whose completions come from servers that only pretend, one rollout ahead."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grpo_lightning import GRPOModule
from grpo_lightning.corrections.truncated_importance import TruncatedImportance
from grpo_lightning.engines.vllm import VLLM
from grpo_lightning.settings import Generation
from helpers.tiny_policy import tiny_policy
from helpers.tiny_run import make_module


def ahead_module(urls: Sequence[str], folder: Path, *, ahead: int = 1, **settings: Any) -> GRPOModule:
    """Three groups of four a rollout, two updates each."""
    engine = VLLM(servers=list(urls), folder=str(folder), timeout=30.0, patience=30.0)
    defaults: dict[str, Any] = {
        "engine": engine,
        "correction": TruncatedImportance(),
        "generation": Generation(max_new_tokens=6, rollouts_ahead=ahead),
        "updates_per_rollout": 2,
        "optimizer": None,
        "learning_rate": 1e-3,
    }
    return make_module(tiny_policy(), **defaults | settings)
