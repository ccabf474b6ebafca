"""What every pluggable part has in common: a registered name and its kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from grpo_lightning.formula import Formula


class Component:
    """Base of every pluggable part.

    A component is a class with a ``name``, a docstring whose first line says what it computes, and typed keyword
    arguments. Its constructor checks its arguments and raises :class:`~grpo_lightning.errors.ConfigError` naming the
    argument; it loads nothing. What must be loaded is loaded later, in the method that its kind names for it.
    """

    kind: ClassVar[str]
    """Kind of part, set by the base class of each kind."""
    name: ClassVar[str]
    """Registered name, in snake_case, unique within the kind."""
    differs: ClassVar[Mapping[str, str]] = {}
    """Who computes it differently: a system's name, and how its result differs."""

    example: ClassVar[Mapping[str, Any]] = {}
    """Arguments that build a small working one, where its defaults do not: what the conformance kit tries."""

    def formula(self) -> Formula | None:
        """What it computes as an equation, with its own numbers; ``None`` where it is no equation."""
        return None

    def state_dict(self) -> dict[str, Any]:
        """What decides the component's next result, as tensors, numbers, strings, lists and dicts. Stateless: empty."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what :meth:`state_dict` returned."""
