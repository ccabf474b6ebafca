"""The hooks that plugins implement.

A plugin is an importable module that decorates functions of these names with ``@grpo_lightning.hookimpl`` and is named by
an entry point in the group ``grpo_lightning``. No per-step traffic goes through hooks: they run once, at start.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from grpo_lightning.registry import LazyComponent

PROJECT = "grpo_lightning"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

Registration = "type | LazyComponent | Sequence[type | LazyComponent]"
"""What a ``grpo_register_<kind>`` hook returns: a class or several, or a lazy reference where importing is heavy."""


@hookspec
def grpo_register_reward() -> Registration:
    """Return a reward class or several: subclasses of ``grpo_lightning.rewards.base.Reward`` with a ``name``."""


@hookspec
def grpo_register_advantage() -> Registration:
    """Return an advantage class or several: subclasses of ``grpo_lightning.advantages.base.Advantage`` with a ``name``."""


@hookspec
def grpo_register_transform() -> Registration:
    """Return a transform class or several: subclasses of ``grpo_lightning.transforms.base.Transform`` with a ``name``."""


@hookspec
def grpo_register_selector() -> Registration:
    """Return a selector class or several: subclasses of ``grpo_lightning.selectors.base.Selector`` with a ``name``."""


@hookspec
def grpo_register_loss() -> Registration:
    """Return a loss class or several: subclasses of ``grpo_lightning.losses.base.PolicyLoss`` with a ``name``."""


@hookspec
def grpo_register_aggregation() -> Registration:
    """Return an aggregation class or several: subclasses of ``grpo_lightning.aggregations.base.Aggregation`` with a ``name``."""


@hookspec
def grpo_register_kl() -> Registration:
    """Return a kl class or several: subclasses of ``grpo_lightning.kl.base.KLEstimator`` with a ``name``."""


@hookspec
def grpo_register_correction() -> Registration:
    """Return a correction class or several: subclasses of ``grpo_lightning.corrections.base.Correction`` with a ``name``."""


@hookspec
def grpo_register_auxiliary() -> Registration:
    """Return an auxiliary class or several: subclasses of ``grpo_lightning.auxiliary.base.AuxiliaryLoss`` with a ``name``."""


@hookspec
def grpo_register_sampler() -> Registration:
    """Return a sampler class or several: subclasses of ``grpo_lightning.samplers.base.Sampler`` with a ``name``."""


@hookspec
def grpo_register_curriculum() -> Registration:
    """Return a curriculum class or several: subclasses of ``grpo_lightning.curricula.base.Curriculum`` with a ``name``."""


@hookspec
def grpo_register_engine() -> Registration:
    """Return an engine class or several: subclasses of ``grpo_lightning.engines.base.Engine`` with a ``name``."""


@hookspec
def grpo_register_environment() -> Registration:
    """Return an environment class or several: subclasses of ``grpo_lightning.environments.base.Environment`` with a ``name``."""


@hookspec
def grpo_register_policy() -> Registration:
    """Return a policy class or several: subclasses of ``grpo_lightning.policies.base.Policy`` with a ``name``."""


@hookspec
def grpo_register_prompts() -> Registration:
    """Return a prompts class or several: subclasses of ``grpo_lightning.prompts.base.PromptSource`` with a ``name``."""


@hookspec
def grpo_register_callback() -> Registration:
    """Return a callback class or several: subclasses of Lightning's ``Callback`` with a ``name``."""


@hookspec
def grpo_register_commands() -> dict[str, tuple[Callable[[ArgumentParser], None], Callable[[Any], int]]]:
    """Return commands for ``python -m grpo_lightning <name>``: by name, a function that adds arguments to a parser and a
    function that takes the parsed arguments and returns the exit code. A command's docstring is its help."""


@hookspec
def grpo_configure(config: dict[str, Any]) -> None:
    """Called with the configuration of a run after its names are resolved and before anything is built; may change it
    in place."""


@hookspec
def grpo_report_header() -> str:
    """Return a line for the header of a run, such as the plugin's version and what it found."""
