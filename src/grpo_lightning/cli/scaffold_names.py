"""What a new plugin, its package and its component are called."""

from __future__ import annotations

import builtins
import keyword
import re
import sys
from dataclasses import dataclass

from grpo_lightning.errors import require
from grpo_lightning.pluginmanager import installed_entry_points
from grpo_lightning.registry import Registry

PREFIX = "grpo-lightning-"
"""What names of distributions that hold plugins begin with."""
LONGEST = 30
LEGAL = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")


@dataclass(frozen=True)
class Names:
    """The names of one plugin."""

    short: str
    """With hyphens, without the prefix: the entry point, and what people call it."""

    @classmethod
    def of(cls, given: str) -> Names:
        """The names that follow from what a person wrote, with or without the prefix.

        Raises:
            ConfigError: If it is no legal name, or one that Python gives another meaning.

        Example:
            >>> names = Names.of("my-reward")
            >>> names.distribution, names.module, names.component, names.class_name
            ('grpo-lightning-my-reward', 'grpo_lightning_my_reward', 'my_reward', 'MyReward')
        """
        text = given.replace("_", "-")
        short = text.removeprefix(PREFIX)
        fix = "use small letters and digits, with hyphens between words, such as my-reward"
        legal = LEGAL.fullmatch(given) is not None and LEGAL.fullmatch(short) is not None
        require(legal and f"{short}-" != PREFIX, "name", given, "is no name of a plugin", fix)
        require(len(short) <= LONGEST, "name", given, f"is longer than {LONGEST} characters", "shorten it")
        names = cls(short)
        python = {*keyword.kwlist, *keyword.softkwlist}
        taken = {names.component, names.class_name} & (python | set(dir(builtins)))
        taken |= {names.component} & sys.stdlib_module_names
        require(not taken, "name", given, f"has a meaning in Python ({', '.join(sorted(taken))})", "give another name")
        return names

    @property
    def distribution(self) -> str:
        """Name for pip, and of the folder."""
        return f"{PREFIX}{self.short}"

    @property
    def module(self) -> str:
        """The package that is imported."""
        return self.distribution.replace("-", "_")

    @property
    def component(self) -> str:
        """Registered name of the component, and of its module."""
        return self.short.replace("-", "_")

    @property
    def class_name(self) -> str:
        """Its class."""
        return "".join(word.capitalize() for word in self.short.split("-"))


def check_free(names: Names, kind: str, known: Registry) -> None:
    """Check that nothing that is installed has one of the names.

    Raises:
        ConfigError: If something has.
    """
    for name in (names.component, names.class_name):
        entry = known.find(kind, name)
        if entry is not None:
            owner = f"{entry.distribution} {entry.version}".strip()
            reason = f"is taken: {entry.path} of {owner} is the {kind} {entry.name!r}"
            require(False, "name", names.short, reason, "give another name")
    for _, distribution in installed_entry_points():
        taken = (distribution.metadata["Name"] or "").lower().replace("_", "-") == names.distribution
        require(not taken, "name", names.short, f"is taken: {names.distribution} is installed",
                "give another name, or uninstall that")  # fmt: skip
