"""Which plugins are loaded, how strictly, and whether it is told: environment variables, read before anything else."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

ALLOWED = "GRPO_LIGHTNING_PLUGINS"
"""Names of the only plugins or distributions that are loaded, separated by commas; empty for none."""
BLOCKED = "GRPO_LIGHTNING_BLOCKED_PLUGINS"
"""Names of plugins or distributions that are not loaded, separated by commas."""
STRICT = "GRPO_LIGHTNING_STRICT_PLUGINS"
"""With ``1``, a plugin that does not load, or not wholly, stops every command."""
TRACE = "GRPO_LIGHTNING_TRACE_PLUGINS"
"""With ``1``, loading is told step by step on standard error."""


@dataclass(frozen=True)
class Switches:
    """What the environment says about plugins. Names are compared as package indexes do."""

    allowed: frozenset[str] | None = None
    """Only these; ``None`` for all."""
    blocked: frozenset[str] = frozenset()
    strict: bool = False
    trace: bool = False

    @classmethod
    def of_environment(cls) -> Switches:
        """The switches of this process."""
        return cls(
            allowed=_names(os.environ[ALLOWED]) if ALLOWED in os.environ else None,
            blocked=_names(os.environ.get(BLOCKED, "")),
            strict=_is_on(STRICT),
            trace=_is_on(TRACE),
        )

    def unknown(self, known: Collection[str]) -> Iterator[tuple[str, str]]:
        """Names that are none of ``known``, each after its variable."""
        for variable, names in ((ALLOWED, self.allowed or ()), (BLOCKED, self.blocked)):
            yield from ((variable, name) for name in sorted(names) if name not in known)


def normalised(name: str) -> str:
    """A distribution's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def _names(text: str) -> frozenset[str]:
    return frozenset(normalised(name) for name in text.split(",") if name.strip())


def _is_on(variable: str) -> bool:
    return os.environ.get(variable, "") not in ("", "0")
