"""The command ``python -m grpo_lightning reasoning-gym``."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

from grpo_lightning.errors import DataError, GRPOError

_OPTIONS_OF_SETS = ("samples", "sampler", "k", "correct", "limit", "batch_prompts", "name")


def add_arguments(parser: ArgumentParser) -> None:
    """Arguments of the command."""
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("tasks", help="list the tasks with their numbers of levels")
    shown = actions.add_parser("show", help="show a task's options at a level, and a few of its questions")
    shown.add_argument("task")
    shown.add_argument("--level", type=int)
    shown.add_argument("--size", type=int, default=2, help="questions")
    shown.add_argument("--range-mode", choices=("inclusive", "upper_bound"), default="inclusive")
    shared = actions.add_parser("overlap", help="count the prompts that the data sets of a configuration share")
    shared.add_argument("config", help="a configuration in YAML")


def run(options: Any) -> int:
    """Tasks of reasoning-gym: list them, look at one, count the prompts that two data sets share."""
    from grpo_lightning_reasoning_gym.tasks import level_count, task_names

    try:
        if options.action == "tasks":
            lines = (f"{task:28}{level_count(task) or '-'}" for task in task_names())
            _write("task                        levels", *lines)
        elif options.action == "show":
            _show(options)
        else:
            _overlap(Path(options.config))
    except GRPOError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


def _show(options: Any) -> None:
    from grpo_lightning_reasoning_gym.entry_json import from_json
    from grpo_lightning_reasoning_gym.source import ReasoningGymPrompts
    from grpo_lightning_reasoning_gym.tasks import level_count, option_defaults

    source = ReasoningGymPrompts(
        task=options.task, level=options.level, size=options.size, range_mode=options.range_mode, split="any"
    )
    source.load()
    rows = [source[index] for index in range(len(source))]
    _write(f"{options.task}: {level_count(options.task)} levels", "options:")
    settings = option_defaults(options.task) | from_json(rows[0]["entry"])["options"]
    _write(*(f"  {name}: {value!r}" for name, value in settings.items()))
    for row in rows:
        _write("", row["prompt"], f"-> {row['answer']}")


def _overlap(path: Path) -> None:
    import yaml

    from grpo_lightning_reasoning_gym.source import ReasoningGymPrompts
    from grpo_lightning_reasoning_gym.split import shared_prompts

    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise DataError("config", str(path), f"cannot be read ({error})", "name a configuration in YAML") from None
    sources = {}
    for setting, arguments in _sources(config.get("data") if isinstance(config, Mapping) else None, "data"):
        sources[setting] = ReasoningGymPrompts(**arguments)
        sources[setting].load()
        _write(f"{setting}: {len(sources[setting])} prompts, {sources[setting].repeated} repeated ones left out")
    for first, second in combinations(sources, 2):
        _write(f"{first} and {second} share {shared_prompts(sources[first], sources[second])}")


def _sources(config: Any, setting: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Settings that hold prompts ``reasoning_gym``, with their arguments."""
    if not isinstance(config, Mapping):
        return
    if config.get("name") == "reasoning_gym":
        yield setting, {str(key): value for key, value in config.items() if key not in _OPTIONS_OF_SETS}
        return
    for key, value in config.items():
        yield from _sources(value, f"{setting}.{key}")


def _write(*lines: str) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)
