"""Commands that need no Trainer: ``plugins``, ``export``, ``rewards``, and those that plugins add."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

from typing_extensions import override

from grpo_lightning.cli import export, plugins_command, rewards_command
from grpo_lightning.errors import ConfigError
from grpo_lightning.registry import Registry, registry

Command = tuple[Callable[[ArgumentParser], None], Callable[[Any], int]]


class _OneLineParser(ArgumentParser):
    """Tells a wrong argument in one line, as every other fault is told."""

    words: ClassVar[list[str]] = []
    """What is parsed, by this parser and those of its subcommands."""

    @override
    def error(self, message: str) -> NoReturn:
        raise ConfigError("arguments", " ".join(self.words), f"cannot be read: {message}", f"see {self.prog} --help")


def commands(known: Registry) -> dict[str, Command]:
    """Every light command by name; a plugin's command that has a taken name is a fault of that plugin."""
    found: dict[str, Command] = {
        "plugins": (plugins_command.add_arguments, plugins_command.run),
        "export": (export.add_arguments, export.run),
        "rewards": (rewards_command.add_arguments, rewards_command.run),
    }
    for plugin, added in known.source.call_each("grpo_register_commands"):
        for name, command in dict(added or {}).items():
            if name in found or name in (
                "fit",
                "validate",
                "test",
                "predict",
                "explain",
                "plan",
                "verify-resume",
                "help",
            ):
                known.source.fail(plugin, f"its command {name!r} has the name of another one")
            else:
                found[name] = command
    return found


def light_commands() -> dict[str, Callable[[list[str]], int]]:
    """Every light command by name, as a function of the words that follow it."""
    return {name: _runner(name, command) for name, command in commands(registry()).items()}


def summaries() -> dict[str, str]:
    """First line of the help of every light command."""
    return {name: _summary(run) for name, (_, run) in commands(registry()).items()}


def _summary(run: Callable[[Any], int]) -> str:
    return (run.__doc__ or "").strip().partition("\n")[0]


def _runner(name: str, command: Command) -> Callable[[list[str]], int]:
    add_arguments, run = command

    def call(words: list[str]) -> int:
        parser = _OneLineParser(prog=f"python -m grpo_lightning {name}", description=run.__doc__)
        _OneLineParser.words = words
        add_arguments(parser)
        try:
            return int(run(parser.parse_args(words)) or 0)
        except SystemExit as leaving:  # argparse leaves after --help
            return int(leaving.code or 0)

    return call
