"""What every pluggable part has in common: a registered name and its kind."""

from __future__ import annotations

from typing import Any, ClassVar


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

    def state_dict(self) -> dict[str, Any]:
        """What decides the component's next result, as tensors, numbers, strings, lists and dicts. Stateless: empty."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what :meth:`state_dict` returned."""
