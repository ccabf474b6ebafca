"""Procedural tasks of reasoning-gym: their questions as prompts, their verifiers as a reward, difficulty as a curriculum."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from grpo_lightning import LazyComponent, hookimpl

_HERE = "grpo_lightning_reasoning_gym"
GRPO_LIGHTNING_API = 1


@hookimpl
def grpo_register_prompts() -> LazyComponent:
    return LazyComponent(
        "reasoning_gym",
        f"{_HERE}.source.ReasoningGymPrompts",
        "Questions of one or several tasks of reasoning-gym, all different, as a function of the arguments alone.",
    )


@hookimpl
def grpo_register_reward() -> LazyComponent:
    return LazyComponent(
        "reasoning_gym",
        f"{_HERE}.reward.ReasoningGymReward",
        "Score in [0, 1] that the task's own verifier gives the answer found; abstains where a row has no column ``entry``.",
    )


@hookimpl
def grpo_register_curriculum() -> LazyComponent:
    return LazyComponent(
        "difficulty",
        f"{_HERE}.difficulty.Difficulty",
        "Data sets as levels: the next one begins when a moving mean of the present one's scores is high enough.",
    )


@hookimpl
def grpo_register_callback() -> LazyComponent:
    return LazyComponent(
        "curriculum_level", f"{_HERE}.level_log.CurriculumLevel", "Logs the level that the curriculum has reached."
    )


@hookimpl
def grpo_register_commands() -> dict[str, tuple[Callable[[ArgumentParser], None], Callable[[Any], int]]]:
    from grpo_lightning_reasoning_gym.command import add_arguments, run

    return {"reasoning-gym": (add_arguments, run)}
