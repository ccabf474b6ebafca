"""Words of the command line to settings: ``--a.b VALUE``, ``--a.b=VALUE``, ``--a.list+=VALUE``, ``--config FILE``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grpo_lightning.cli.yaml_text import parse_value
from grpo_lightning.errors import ConfigError


@dataclass(frozen=True)
class Setting:
    """One value from the command line."""

    path: tuple[str, ...]
    value: Any
    append: bool = False
    """Add to the list that is there instead of replacing it."""


@dataclass
class Arguments:
    """What a command line asks for."""

    configs: list[Path] = field(default_factory=list)
    settings: list[Setting] = field(default_factory=list)
    help: bool = False
    print_config: bool = False


def parse_arguments(words: Sequence[str]) -> Arguments:
    """Read the words after the command.

    Raises:
        ConfigError: If a word is no option, or an option that needs a value has none.

    Example:
        >>> parse_arguments(["--model.loss.epsilon_high", "0.28", "--wandb"]).settings[0]
        Setting(path=('model', 'loss', 'epsilon_high'), value=0.28, append=False)
    """
    arguments = Arguments()
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, equals, text = word.partition("=")
        if word in ("-h", "--help"):
            arguments.help = True
        elif word == "--print_config":
            arguments.print_config = True
        elif name in ("-c", "--config"):
            if not equals and not (rest and not _is_option(rest[0])):
                raise ConfigError("config", None, "is no file", "write --config FILE")
            arguments.configs.append(Path(text if equals else rest.pop(0)))
        elif _is_option(word):
            append = name.endswith("+")
            if not equals and rest and not _is_option(rest[0]):
                equals, text = "=", rest.pop(0)
            arguments.settings.append(Setting(_path(name, append), parse_value(text) if equals else True, append))
        else:
            raise ConfigError("arguments", word, "belongs to no option", "write --setting VALUE")
    return arguments


def _is_option(word: str) -> bool:
    # A value may start with a dash, such as -1; two dashes always open an option.
    return word.startswith("--") or word in ("-c", "-h") or word.startswith("-c=")


def _path(name: str, append: bool) -> tuple[str, ...]:
    path = tuple(name.removeprefix("--").removesuffix("+" if append else "").split("."))
    if not all(path):
        raise ConfigError("arguments", name, "is no option", "write --group.setting VALUE")
    return path
