"""``plan``: what a run will need, before it is launched. It takes the words that ``fit`` takes, and loads no weights."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from grpo_lightning.cli.arguments import Arguments, parse_arguments
from grpo_lightning.cli.configured_module import configured_data, configured_module
from grpo_lightning.errors import ConfigError
from grpo_lightning.module import GRPOModule
from grpo_lightning.planning import changes, make_plan
from grpo_lightning.planning.choice import choice_of
from grpo_lightning.planning.page import advice, page
from grpo_lightning.planning.plan import GIB, Plan
from grpo_lightning.planning.rows import Lengths
from grpo_lightning.row_length import longest_row

HELP = """usage: python -m grpo_lightning plan [--config FILE] [--setting VALUE] [--gpus N] [--gpu-memory GIB]

Counts what every process of `fit` would hold with the same words, phase by phase: weights, gradients, optimizer,
activations, cache and logits; and the tokens of a step. Nothing is launched and no weights are loaded: the library's own
passes run on tensors that have shapes and no numbers, with every prompt as long as the longest one and every completion
as long as it may be. Where it does not fit, it says what to change, and what each change leads to.

  --config FILE     a configuration, as for fit; without one, the embedded run
  --setting VALUE   any setting of fit
  --gpus N          processes; by default trainer.devices on trainer.num_nodes
  --gpu-memory GIB  memory of each GPU (default 80)

Exit code 0 if it fits, 1 if it does not, 2 if the configuration is wrong.
"""
OWN = ("gpus", "gpu-memory")


def run(words: Sequence[str]) -> int:
    """memory of each process and tokens of a step, before anything is launched

    Args:
        words: What follows the command.

    Returns:
        0 if it fits, else 1.

    Raises:
        ConfigError: If the configuration is wrong, as ``fit`` would say it.
    """
    arguments = parse_arguments(words)
    if arguments.help:
        sys.stdout.write(HELP)
        return 0
    own = {name: _own(arguments, name) for name in OWN}
    processes = None if own["gpus"] is None else int(_positive("gpus", own["gpus"], whole=True))
    memory = _positive("gpu-memory", own["gpu-memory"] or "80") * GIB
    plan, module = planned(arguments, processes)
    named = ", ".join(map(str, arguments.configs)) or "the embedded run"
    sys.stdout.write(page(plan, f"What {named} needs", memory))
    if plan.fits(memory):
        return 0
    sys.stdout.flush()
    sys.stdout.write(advice(changes(module, plan, lambda other: other.fits(memory)), memory))
    return 1


def planned(arguments: Arguments, processes: int | None) -> tuple[Plan, GRPOModule]:
    """The plan of a command line, and its module.

    Args:
        arguments: The words of ``fit``.
        processes: How many there will be; by default as many as the trainer's settings say.

    Raises:
        ConfigError: If the configuration is wrong, as ``fit`` would say it.
    """
    module, configuration = configured_module(arguments)
    data = configured_data(module, configuration)
    choice = choice_of(module, configuration.config["trainer"], processes)
    longest = max(prompts.longest for prompts in data.train_sets.values())
    lengths = Lengths(
        prompt=longest,
        completion=longest_row(module, data) - longest,
        group_size=module.group_size,
        groups=module.prompts_per_rollout,
        updates=module.updates_per_rollout,
    )
    return make_plan(module, choice, lengths), module


def _own(arguments: Arguments, name: str) -> str | None:
    """The value of an option of this command, taken out of the settings."""
    found = [setting for setting in arguments.settings if setting.path == (name,)]
    arguments.settings = [setting for setting in arguments.settings if setting.path != (name,)]
    return str(found[-1].value) if found else None


def _positive(name: str, text: str, *, whole: bool = False) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9 or (whole and value != int(value)):
        raise ConfigError(name, text, f"is no {'whole ' if whole else ''}number above 0", f"write --{name} "
                          + ("8" if whole else "80"))  # fmt: skip
    return value
