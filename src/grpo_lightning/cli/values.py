"""Whether a plain value has the type that a setting asks for, and how to say which type that is."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin

from grpo_lightning.errors import ConfigError

_WORDS: dict[Any, str] = {
    int: "an integer",
    float: "a number",
    str: "text",
    bool: "true or false",
    types.NoneType: "null",
    dict: "a mapping",
    list: "a list",
}


def check_type(path: str, value: Any, hint: Any) -> Any:
    """``value`` as jsonargparse reads it for a parameter with the type hint ``hint``.

    Raises:
        ConfigError: If it has another type.
    """
    if hint is Any or (hint in _WORDS and type(value) is hint and hint not in (dict, list)):
        return value
    from jsonargparse import ArgumentParser

    parser = ArgumentParser(exit_on_error=False)
    try:
        parser.add_argument("--value", type=hint)
    except ValueError:  # a hint that jsonargparse cannot read stays unchecked there too
        return value
    try:
        return parser.parse_object({"value": value}).value
    except Exception as error:
        reason = "is no choice" if get_origin(hint) is Literal else "has the wrong type"
        if isinstance(value, dict) and "class_path" in value:  # the type is right, what is said about it is not
            reason = f"cannot be used ({' '.join(str(error).split())})"
        raise ConfigError(path, value, reason, _advice(value, hint)) from error


def _advice(value: Any, hint: Any) -> str:
    members = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    if str in members and isinstance(value, bool | int | float):
        return f"set {expected(hint)}; quotes make text of it ('\"{value}\"' on the command line)"
    return f"set {expected(hint)}"


def expected(hint: Any) -> str:
    """A type hint in words.

    Example:
        >>> expected(dict[str, float] | None)
        'a mapping of numbers or null'
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in _WORDS:
        return _WORDS[hint]
    if origin is Literal:
        return " or ".join(repr(argument) for argument in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(expected(member) for member in arguments))
    if origin in (list, Sequence, Iterable, tuple, set):
        return f"a list of {_many(arguments[0])}" if arguments else "a list"
    if origin in (dict, Mapping):
        return f"a mapping of {_many(arguments[1])}" if arguments else "a mapping"
    if origin is Callable or hint is Callable:
        return "an import path"
    if inspect.isclass(hint):
        return f"a {hint.__name__}"
    return "another value"


def _many(hint: Any) -> str:
    several = {int: "integers", float: "numbers", str: "texts", bool: "booleans"}
    if hint is Any:
        return "values"
    return several.get(hint, f"items, each {expected(hint)}")
