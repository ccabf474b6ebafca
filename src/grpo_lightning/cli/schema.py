"""What can be set: the parameters of a class, read from its signature and type hints."""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin

from grpo_lightning.component import Component
from grpo_lightning.kinds import KINDS

Form = Literal["slot", "group", "list", "names", "factory", "value"]


@dataclass(frozen=True)
class Shape:
    """One way in which a setting may be written."""

    form: Form
    """``slot``: a component. ``group``: a dataclass. ``list``, ``names``: a list, or a mapping from free names, of
    something. ``factory``: a class that is built later. ``value``: anything else."""
    kind: str = ""
    """Kind of component, for a slot."""
    cls: Any = None
    """The dataclass of a group."""
    of: tuple[Shape, ...] = ()
    """Shapes of the items of a list or of named values."""
    hint: Any = None
    """Type hint of a plain value."""
    returns: tuple[type, ...] = ()
    """What the class of a factory must be."""

    @property
    def component_field(self) -> str | None:
        """Field of a group that holds its component, so that the group may be written as the component itself."""
        return getattr(self.cls, "component_field", None)


@dataclass(frozen=True)
class Parameter:
    """One setting of a class."""

    name: str
    hint: Any
    shapes: tuple[Shape, ...]
    required: bool
    default: Any
    nullable: bool

    def shape(self, form: Form) -> Shape | None:
        """The shape of that form, if the setting may have it."""
        return next((shape for shape in self.shapes if shape.form == form), None)

    @property
    def kind(self) -> str:
        """Kind of the component that the setting is or holds; empty if none."""
        return _kind(self.shapes)


def _kind(shapes: tuple[Shape, ...]) -> str:
    for shape in shapes:
        field = shape.component_field
        inner = shape.of or (parameters(shape.cls)[field].shapes if field else ())
        if found := shape.kind or _kind(inner):
            return found
    return ""


@cache
def parameters(owner: Any) -> Mapping[str, Parameter]:
    """Settings of a class or function by name: its typed keyword arguments."""
    if inspect.isclass(owner) and owner.__init__ is object.__init__:
        return {}
    hints = _hints(owner)
    found = {}
    for name, parameter in inspect.signature(owner).parameters.items():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        hint = hints.get(name, Any)
        default = None if parameter.default is parameter.empty else parameter.default
        members = _members(hint)
        required = parameter.default is parameter.empty
        nullable = types.NoneType in members or Any in members or (not required and default is None)
        found[name] = Parameter(name, hint, _shapes(hint), required, default, nullable)
    return found


def _hints(owner: Any) -> dict[str, Any]:
    target = owner if dataclasses.is_dataclass(owner) or not inspect.isclass(owner) else owner.__init__
    try:
        return typing.get_type_hints(target)
    except Exception:  # a stranger's hints may name what exists only for a type checker: such values go unchecked here
        return {}


def _members(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _shapes(hint: Any) -> tuple[Shape, ...]:
    shapes, plain = [], []
    for member in _members(hint):
        shape = _shape(member)
        if shape is not None:
            shapes.append(shape)
        elif member is not types.NoneType:
            plain.append(member)
    if any(shape.form in ("slot", "factory") for shape in shapes):
        plain = [member for member in plain if member is not str]  # the name of a component, never a plain value
    if plain:
        shapes.append(Shape("value", hint=Union[tuple(plain)]))  # noqa: UP007
    return tuple(shapes)


def _shape(member: Any) -> Shape | None:
    origin, arguments = get_origin(member), get_args(member)
    if inspect.isclass(member):
        if kind := _kind_of(member):
            return Shape("slot", kind=kind)
        if dataclasses.is_dataclass(member):
            return Shape("group", cls=member)
    if origin in (list, Sequence) and _structured(arguments[0]):
        return Shape("list", of=_shapes(arguments[0]))
    if origin in (dict, Mapping) and arguments[0] is str and _structured(arguments[1]):
        return Shape("names", of=_shapes(arguments[1]))
    if origin is Callable and arguments:
        returns = _members(arguments[-1])
        if all(inspect.isclass(each) and each.__module__ not in ("builtins", "typing") for each in returns):
            return Shape("factory", returns=returns)
    return None


def _structured(hint: Any) -> bool:
    return any(shape.form != "value" for shape in _shapes(hint))


def _kind_of(member: type) -> str:
    if issubclass(member, Component):
        return getattr(member, "kind", "")
    if member.__module__.partition(".")[0] in ("lightning", "pytorch_lightning") and member.__name__ == "Callback":
        return KINDS["callback"].name
    return ""
