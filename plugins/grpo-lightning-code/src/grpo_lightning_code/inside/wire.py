"""Values as JSON between a candidate's process and the judge: plain data by value, everything else by reference.

Scalars are themselves; whatever else is a list whose first entry says what it is. Neither side ever runs what it reads.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Collection
from importlib import import_module
from typing import Any

LARGEST_MESSAGE = 4 << 20
_LARGE_INTEGER_BITS = 4096  # decimal digits of larger ones would exceed what Python converts


class Malformed(ValueError):  # noqa: N818 - the message says what is malformed
    """Bytes or JSON that are no message."""


def encode(value: Any, reference: Callable[[Any], list[Any]]) -> Any:
    """JSON of ``value``; ``reference`` names what is no plain data."""
    if value is None or value is True or value is False:
        return value
    if isinstance(value, int):
        number = int(value)
        return number if number.bit_length() <= _LARGE_INTEGER_BITS else ["integer", hex(number)]
    if isinstance(value, float | str):
        return float(value) if isinstance(value, float) else str.__str__(value)
    for base, name in _BY_ITEMS.items():
        if isinstance(value, base):
            return [name, [encode(item, reference) for item in value]]
    if isinstance(value, dict):
        return ["dict", [[encode(key, reference), encode(item, reference)] for key, item in value.items()]]
    if isinstance(value, bytes | bytearray):
        return [type(value).__name__, bytes(value).hex()]
    kind = type(value)
    place = (kind.__module__, kind.__qualname__)
    if place in _BY_TEXT:
        return [".".join(place), getattr(value, _BY_TEXT[place])()]
    if kind is range:
        return ["range", [value.start, value.stop, value.step]]
    if kind is complex:
        return ["complex", [value.real, value.imag]]
    return reference(value)


def decode(message: Any, resolve: Callable[[str, Any], Any]) -> Any:
    """The value of :func:`encode`'s JSON; ``resolve`` finds what a reference (kind, payload) stands for.

    Raises:
        Malformed: If it is no such JSON.
    """
    if message is None or isinstance(message, bool | int | float | str):
        return message
    if not isinstance(message, list) or len(message) != 2 or not isinstance(message[0], str):
        raise Malformed("a value that is no pair of kind and content")
    kind, content = message
    try:
        if kind in _MAKE_FROM_ITEMS:
            return _MAKE_FROM_ITEMS[kind]([decode(item, resolve) for item in content])
        if kind == "dict":
            return {decode(key, resolve): decode(item, resolve) for key, item in content}
        if kind in _MAKE_FROM_CONTENT:
            return _MAKE_FROM_CONTENT[kind](content)
        module, _, name = kind.partition(".")
        if (module, name) in _BY_TEXT:
            return _from_text(module, name, content)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise Malformed(f"a {kind[:20]} that is none: {error}") from None
    return resolve(kind, content)


_BY_ITEMS: dict[type[Collection[Any]], str] = {
    list: "list",
    tuple: "tuple",
    set: "set",
    frozenset: "frozenset",
    deque: "deque",
}
_BY_TEXT = {
    ("decimal", "Decimal"): "__str__",
    ("fractions", "Fraction"): "__str__",
    ("datetime", "date"): "isoformat",
    ("datetime", "datetime"): "isoformat",
    ("datetime", "time"): "isoformat",
}
"""Types of the standard library by value; by name, so that none is imported for nothing."""
_MAKE_FROM_ITEMS: dict[str, Callable[[list[Any]], Any]] = {name: kind for kind, name in _BY_ITEMS.items()}
_MAKE_FROM_CONTENT: dict[str, Callable[[Any], Any]] = {
    "integer": lambda text: int(text, 16),
    "bytes": bytes.fromhex,
    "bytearray": bytearray.fromhex,
    "range": lambda ends: range(*ends),
    "complex": lambda parts: complex(*parts),
}


def _from_text(module: str, name: str, text: Any) -> Any:
    made = getattr(import_module(module), name)
    return made.fromisoformat(text) if module == "datetime" else made(text)


class Channel:
    """Messages over a pair of pipes, one JSON line each.

    Args:
        read: Descriptor to read from.
        write: Descriptor to write to.
    """

    def __init__(self, read: int, write: int) -> None:
        self.read, self.write = read, write
        self._buffer = bytearray()

    def send(self, message: list[Any]) -> None:
        """Write a message.

        Raises:
            Malformed: If it is too large.
            OSError: If the other side is gone.
        """
        data = memoryview(json.dumps(message).encode() + b"\n")
        if len(data) > LARGEST_MESSAGE:
            raise Malformed(f"a value of more than {LARGEST_MESSAGE} bytes")
        while data:
            data = data[os.write(self.write, data) :]

    def receive(self) -> list[Any]:
        """The next message.

        Raises:
            Malformed: If it is none, or too large.
            EOFError: If the other side is gone.
        """
        while (end := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > LARGEST_MESSAGE:
                raise Malformed(f"a value of more than {LARGEST_MESSAGE} bytes")
            chunk = os.read(self.read, 1 << 16)
            if not chunk:
                raise EOFError
            self._buffer += chunk
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        try:
            message = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise Malformed(f"no JSON: {error}") from None
        if not isinstance(message, list) or not message:
            raise Malformed("no message")
        return message
