"""Unit-test rewards for code that the policy wrote, run in a sandbox."""

from __future__ import annotations

from grpo_lightning import hookimpl
from grpo_lightning.rewards.base import Reward
from grpo_lightning_code.code_tests import CodeTests

__all__ = ["CodeTests", "grpo_register_reward"]


@hookimpl
def grpo_register_reward() -> type[Reward]:
    return CodeTests
