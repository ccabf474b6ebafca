"""The hooks that plugins implement.

A plugin is an importable module that decorates functions of these names with ``@grpo_lightning.hookimpl`` and that an
entry point in the group ``grpo_lightning`` names. No per-step traffic goes through hooks: they run once, at start.
"""

# A hook specification has no body, whatever it returns.
# mypy: disable-error-code="empty-body"

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import pluggy

if TYPE_CHECKING:
    from grpo_lightning.registry import LazyComponent

PROJECT = "grpo_lightning"
API = 1
"""Version of the hooks and of the contracts behind them. A plugin module may ask for one: ``GRPO_LIGHTNING_API = 1``."""
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

Registration: TypeAlias = "type | LazyComponent | Sequence[type | LazyComponent]"
"""What a ``grpo_register_<kind>`` hook returns: a class or several, or a lazy reference where importing is heavy."""


@hookspec
def grpo_register_reward() -> Registration:
    """Return one or several subclasses of ``grpo_lightning.rewards.base.Reward``."""


@hookspec
def grpo_register_advantage() -> Registration:
    """Return one or several subclasses of ``grpo_lightning.advantages.base.Advantage``."""


@hookspec
def grpo_register_transform() -> Registration:
    """Return one or several subclasses of ``grpo_lightning.transforms.base.Transform``."""


@hookspec
def grpo_register_selector() -> Registration:
    """Return one or several subclasses of ``grpo_lightning.selectors.base.Selector``."""


@hookspec
def grpo_register_loss() -> Registration:
    """Return one or several subclasses of ``grpo_lightning.losses.base.PolicyLoss``."""


@hookspec
def grpo_register_aggregation() -> Registration:
    """Return one or several subclasses of ``grpo_lightning.aggregations.base.Aggregation``."""


@hookspec
def grpo_register_kl() -> Registration:
    """Return one or several subclasses of ``grpo_lightning.kl.base.KLEstimator``."""


@hookspec
def grpo_register_correction() -> Registration:
    """Return one or several subclasses of ``grpo_lightning.corrections.base.Correction``."""


@hookspec
def grpo_register_auxiliary() -> Registration:
    """Return one or several subclasses of ``grpo_lightning.auxiliary.base.AuxiliaryLoss``."""


@hookspec
def grpo_register_sampler() -> Registration:
    """Return one or several subclasses of ``grpo_lightning.samplers.base.Sampler``."""


@hookspec
def grpo_register_curriculum() -> Registration:
    """Return one or several subclasses of ``grpo_lightning.curricula.base.Curriculum``."""


@hookspec
def grpo_register_engine() -> Registration:
    """Return one or several subclasses of ``grpo_lightning.engines.base.Engine``."""


@hookspec
def grpo_register_environment() -> Registration:
    """Return one or several subclasses of ``grpo_lightning.environments.base.Environment``."""


@hookspec
def grpo_register_policy() -> Registration:
    """Return one or several subclasses of ``grpo_lightning.policies.base.Policy``."""


@hookspec
def grpo_register_prompts() -> Registration:
    """Return one or several subclasses of ``grpo_lightning.prompts.base.PromptSource``."""


@hookspec
def grpo_register_callback() -> Registration:
    """Return one or several subclasses of Lightning's ``Callback``."""


@hookspec
def grpo_register_commands() -> dict[str, tuple[Callable[[ArgumentParser], None], Callable[[Any], int]]]:
    """Return commands for ``python -m grpo_lightning <name>``: by name, a function that adds arguments to a parser and
    one that takes the parsed arguments and returns the exit code. The docstring of the latter is the command's help."""


@hookspec
def grpo_configure(config: dict[str, Any]) -> None:
    """Called with the configuration of a run after its names are resolved and before anything is built; may change it
    in place."""


@hookspec
def grpo_report_header() -> str:
    """Return a line for the header of a run, such as the plugin's version and what it found."""
