"""What a class says about itself and its arguments: the source of every help text."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import docstring_parser

from grpo_lightning.cli.schema import parameters


@dataclass(frozen=True)
class Option:
    """One argument of a class, for people."""

    name: str
    type: str
    required: bool
    default: Any
    help: str
    kind: str
    """Kind of the component it is or holds; empty if none."""


def options(owner: Any) -> Iterator[Option]:
    """Every argument of ``owner``, in order."""
    signature = inspect.signature(owner).parameters if parameters(owner) else {}
    texts = {each.arg_name: " ".join((each.description or "").split()) for each in _parsed(owner).params}
    for name, parameter in parameters(owner).items():
        annotation = signature[name].annotation
        written = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
        default = parameter.default
        if not isinstance(default, bool | int | float | str | list | tuple | dict | type(None)):
            default = "its own"  # made anew for every instance
        yield Option(name, written, parameter.required, default, texts.get(name, ""), parameter.kind)


def all_options(owner: Any, prefix: str = "") -> Iterator[Option]:
    """Every argument of ``owner``, and those of the groups of settings among them, named with a dot."""
    for option in options(owner):
        yield replace(option, name=f"{prefix}{option.name}")
        for shape in parameters(owner)[option.name].shapes:
            if shape.form == "group":
                yield from all_options(shape.cls, f"{prefix}{option.name}.")


def description(owner: Any) -> str:
    """The docstring of ``owner`` without its list of arguments."""
    text = inspect.getdoc(owner) or ""
    parts = []
    for part in text.split("\n\n"):
        if part.lstrip().startswith(("Args:", "Raises:", "Returns:", "Example:", "Attributes:")):
            continue
        parts.append(part)
    return "\n\n".join(parts).strip()


def _parsed(owner: Any) -> docstring_parser.Docstring:
    # A docstring of another style has no arguments that can be told apart; it is shown whole by description.
    text = "\n\n".join(inspect.getdoc(each) or "" for each in (owner, owner.__init__) if each is not object.__init__)
    try:
        return docstring_parser.parse(text, docstring_parser.DocstringStyle.GOOGLE)
    except docstring_parser.ParseError:
        return docstring_parser.Docstring()
