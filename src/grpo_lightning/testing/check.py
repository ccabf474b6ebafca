"""A check of the conformance kit, and what it is tried on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any


class Nonconformity(AssertionError):  # noqa: N818 - what a test fails with; its message is what a plugin's author reads
    """A component breaks its contract. The message says what must hold, what happened, and how to mend it."""


@dataclass(frozen=True)
class Specimen:
    """A component under test: its class, and what it is built and tried with."""

    component: type
    """The class."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of its constructor."""
    columns: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Values by column of the data set, for a component that reads columns; rows take them in turn."""

    @classmethod
    def of(cls, component: type) -> Specimen:
        """A class with the example that it gives of itself (``example`` and ``example_columns``)."""
        return cls(component, getattr(component, "example", {}), getattr(component, "example_columns", {}))

    def make(self) -> Any:
        """A new component, equal at every call."""
        return self.component(**deepcopy(dict(self.arguments)))

    @property
    def kind(self) -> str:
        """Its kind: ``reward``, ``loss``, ...; ``callback`` for a class of Lightning's, which has none."""
        return str(getattr(self.component, "kind", "callback"))


@dataclass(frozen=True)
class Check:
    """One thing that every component of a kind must do."""

    name: str
    """In snake_case, unique within a kind."""
    run: Callable[[Specimen], None]
    """Raises :class:`Nonconformity`; whatever else it raises is a fault of the component as well."""

    @property
    def summary(self) -> str:
        """What must hold, in one line."""
        return (self.run.__doc__ or "").strip().partition("\n")[0]


def checks(*functions: Callable[[Specimen], None]) -> tuple[Check, ...]:
    """Checks of functions named ``check_<name>``, whose docstrings say what must hold."""
    return tuple(Check(function.__name__.removeprefix("check_"), function) for function in functions)


def expect(holds: bool, must: str, found: str, mend: str) -> None:
    """Raise :class:`Nonconformity` unless ``holds``.

    Args:
        holds: Whether the contract is kept.
        must: What must hold.
        found: What happened instead.
        mend: How to mend it.
    """
    if not holds:
        raise Nonconformity(f"{must}. Found: {found}. To mend it: {mend}.")
