"""Classes with the type hints of module and data module, small enough to build, and a registry of the built-ins."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Literal

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from grpo_lightning.advantages.base import Advantage
from grpo_lightning.cli.checks import Checker
from grpo_lightning.cli.resolve import Resolver
from grpo_lightning.curricula.base import Curriculum
from grpo_lightning.kl.base import KLTerm
from grpo_lightning.losses.base import PolicyLoss
from grpo_lightning.pluginmanager import Plugins
from grpo_lightning.policies.base import Policy
from grpo_lightning.prompts.base import PromptSource
from grpo_lightning.registry import Registry
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.settings import EvaluationSet, Generation, Warmup
from grpo_lightning.transforms.base import Transform


class Model:
    """The settings of a module."""

    def __init__(
        self,
        *,
        policy: Policy,
        rewards: list[RewardEntry],
        group_size: int = 8,
        generation: Generation | None = None,
        advantage: Advantage | str = "group_norm",
        transforms: list[Transform] | None = None,
        loss: PolicyLoss | str = "clipped",
        kl: KLTerm | None = None,
        warmup: Warmup | None = None,
        optimizer: Callable[[Iterable[Any]], Optimizer] | None = None,
        lr_scheduler: Callable[[Optimizer], LRScheduler] | None = None,
        learning_rate: float = 1e-6,
        non_finite: Literal["stop", "skip"] = "stop",
    ) -> None: ...


class Data:
    """The settings of a data module."""

    def __init__(
        self,
        *,
        train: PromptSource | dict[str, PromptSource] | None,
        validation: dict[str, EvaluationSet] | None = None,
        curriculum: Curriculum | str = "shuffled",
        system_prompt: str | None = None,
    ) -> None: ...


def polite(completions: list[str]) -> list[float]:
    """A reward that is a function."""
    return [float("please" in completion) for completion in completions]


@cache
def built_ins() -> Registry:
    """The built-in components alone, whatever is installed."""
    return Registry(Plugins([]))


def resolver() -> Resolver:
    """A resolver of the built-ins."""
    return Resolver(built_ins())


def checker() -> Checker:
    """A checker of the built-ins."""
    return Checker(resolver())
