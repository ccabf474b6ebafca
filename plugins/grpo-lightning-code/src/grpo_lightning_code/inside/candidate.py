"""What a candidate's own process runs: the program as it is, or a server for a test's calls. Nothing here is trusted."""

from __future__ import annotations

import contextlib
import operator
import sys
import types
from collections.abc import Callable
from typing import Any

from grpo_lightning_code.inside.wire import Channel, Malformed, decode, encode

_MUTABLE = (list, dict, set, bytearray)


def main() -> None:
    """Answer a test's requests; the two last arguments are the descriptors to read from and to write to."""
    server = Server(Channel(int(sys.argv[3]), int(sys.argv[4])))
    sys.argv = ["candidate.py"]
    with contextlib.suppress(EOFError):  # the test is over
        while True:
            server.serve(server.channel.receive())


class Server:
    """Keeps a candidate's objects and does with them what is asked.

    Args:
        channel: Pipes to the judge.
    """

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.objects: list[Any] = []
        self.module = types.ModuleType("candidate")
        sys.modules["candidate"] = self.module

    def serve(self, message: list[Any]) -> None:
        """Answer one request."""
        _, operation, sent = message
        try:
            arguments = [decode(argument, self._resolve) for argument in sent]
            returned = self._do(operation, arguments)
            changes = self._changes(sent[1][1], arguments[1]) if operation == "call" else []
            answer = ["return", encode(returned, self._reference), changes]
            self.channel.send(answer)
        except Exception as error:
            self._raise(error)

    def _raise(self, error: Exception) -> None:
        names = [base.__name__ for base in type(error).__mro__]
        try:
            text = str(error)[:1000]
        except Exception:
            text = ""
        self.channel.send(["raise", names, text])

    def _do(self, operation: str, arguments: list[Any]) -> Any:
        if operation == "load":
            exec(compile(arguments[0], "candidate.py", "exec", dont_inherit=True), self.module.__dict__)
            return None
        if operation == "name":
            return self.module.__dict__.get(arguments[0], self) is not self
        if operation == "value":
            return self.module.__dict__[arguments[0]]
        return _OPERATIONS[operation](*arguments)

    def _changes(self, sent: list[Any], arguments: list[Any]) -> list[Any]:
        """Arguments that a call changed in place: index and new content."""
        changed = []
        for index, (before, argument) in enumerate(zip(sent, arguments, strict=True)):
            if type(argument) in _MUTABLE or type(argument).__name__ == "deque":
                now = encode(argument, self._reference)
                if now != before:
                    changed.append([index, now])
        return changed

    def _reference(self, value: Any) -> list[Any]:
        if isinstance(value, Callback):
            return ["yours", value.number]
        if isinstance(value, type) and issubclass(value, Exception):
            return ["exception", [base.__name__ for base in value.__mro__]]
        self.objects.append(value)
        return ["mine", len(self.objects) - 1]

    def _resolve(self, kind: str, content: Any) -> Any:
        if kind == "yours":
            return self.objects[content]
        if kind == "mine":
            return Callback(self, content)
        if kind == "builtin":
            return getattr(sys.modules["builtins"], content, None) or getattr(self.module, content)
        raise Malformed("an unknown kind of value")


class Callback:
    """Stands for a function of the test.

    Args:
        server: The conversation with the judge.
        number: The function's number there.
    """

    def __init__(self, server: Server, number: int) -> None:
        self._server, self.number = server, number

    def __call__(self, *args: Any) -> Any:
        """Call it; meanwhile the test may ask for things."""
        server = self._server
        server.channel.send(["call", self.number, encode(list(args), server._reference)])
        while True:
            message = server.channel.receive()
            if message[0] == "return":
                return decode(message[1], server._resolve)
            if message[0] == "raise":
                kinds = (getattr(sys.modules["builtins"], name, None) for name in message[1])
                raise next((kind for kind in kinds if kind is not None), Exception)(message[2])
            server.serve(message)


def _binary(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def operate(value: Any, other: Any, swapped: bool = False) -> Any:
        return function(other, value) if swapped else function(value, other)

    return operate


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "call": lambda function, args, kwargs: function(*args, **kwargs),
    "getattr": getattr,
    "setattr": setattr,
    "truth": bool,
    "len": len,
    "str": str,
    "repr": repr,
    "iter": lambda value: _Iterator(iter(value)),
    "next": next,
    "getitem": operator.getitem,
    "setitem": operator.setitem,
    "delitem": operator.delitem,
    "contains": operator.contains,
    "enter": lambda value: value.__enter__(),
    "exit": lambda value: value.__exit__(None, None, None),
    "isinstance": lambda kind, value: isinstance(value, kind),
    **{
        name: _binary(getattr(operator, name, None) or getattr(operator, f"{name}_"))
        for name in ("eq", "ne", "lt", "le", "gt", "ge", "add", "sub", "mul", "matmul", "truediv", "floordiv", "mod",
                     "pow", "and", "or", "xor")
    },
}  # fmt: skip


class _Iterator:
    """An iterator that is no plain data whatever it iterates over.

    Args:
        iterator: The real one.
    """

    def __init__(self, iterator: Any) -> None:
        self._iterator = iterator

    def __next__(self) -> Any:
        return next(self._iterator)
