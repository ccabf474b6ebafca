"""What a test sees of a candidate: stand-ins for its functions and objects, which live in another process.

A stand-in never decides a comparison with plain data. ``f(2) == 4`` compares what ``f`` returned where the candidate
cannot reach; an object whose ``__eq__`` says yes to everything stays an object, and is not 4.
"""

from __future__ import annotations

import builtins
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from grpo_lightning_code.inside.wire import Channel, Malformed, decode, encode

T = TypeVar("T")


class CandidateGone(BaseException):  # no `except Exception` of a test may swallow it
    """The candidate's process ended, or sent what is no message, while it was asked."""


class Candidate:
    """The judge's end of the conversation with a candidate's process.

    Args:
        channel: Pipes to it.
    """

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._callbacks: list[Any] = []
        self._exceptions: dict[str, type[Exception]] = {}
        self.gone = False
        """Whether it ever failed to answer, whatever a test made of that."""

    def ask(self, operation: str, *arguments: Any) -> Any:
        """Have the candidate's process do something; its result, or the exception that it raised.

        Raises:
            CandidateGone: If it ended or talks nonsense.
        """
        try:
            self.channel.send(["do", operation, [encode(argument, self._reference) for argument in arguments]])
            while True:
                message = self.channel.receive()
                if message[0] != "call":
                    break
                self._call_back(message)
            if message[0] == "raise":
                raised = _instance(self.exception(message[1]), str(message[2]))
                if isinstance(raised, StopIteration) and operation != "next":
                    # As generators do: it would end a loop of the test, and with it the test.
                    raised = RuntimeError(f"the candidate raised StopIteration: {raised}")
            else:
                if operation == "call":
                    self._update(arguments[1], message[2])
                return decode(message[1], self._resolve)
        except (OSError, EOFError):
            self.gone = True
            raise CandidateGone("the process ended") from None
        except (Malformed, RecursionError, IndexError, KeyError, AttributeError, TypeError, ValueError) as error:
            self.gone = True
            raise CandidateGone(f"no answer: {error}") from None
        raise raised

    def exception(self, names: list[str]) -> type[Exception]:
        """The exception class for the names of a class and of its bases, nearest first."""
        first = str(names[0])
        if first not in self._exceptions:
            known = (getattr(builtins, str(name), None) for name in names)
            base = next((each for each in known if isinstance(each, type) and issubclass(each, Exception)), Exception)
            # One that a test's own failure would be an instance of gets a class of its own below it.
            own = base.__name__ != first or issubclass(AssertionError, base)
            self._exceptions[first] = type(first, (base,), {}) if own else base
        return self._exceptions[first]

    def _reference(self, value: Any) -> list[Any]:
        if isinstance(value, Remote):
            return ["yours", object.__getattribute__(value, "_number")]
        if isinstance(value, type) and value.__module__ == "builtins":
            return ["builtin", value.__name__]
        if isinstance(value, type) and issubclass(value, Exception):
            return ["builtin", value.__name__]
        if not callable(value):
            raise Malformed(f"a {type(value).__name__} cannot be handed to a candidate")
        self._callbacks.append(value)
        return ["mine", len(self._callbacks) - 1]

    def _resolve(self, kind: str, content: Any) -> Any:
        if kind == "mine" and isinstance(content, int):
            return Remote(self, content)
        if kind == "yours" and isinstance(content, int) and content >= 0:
            return self._callbacks[content]
        if kind == "exception" and isinstance(content, list):
            return self.exception(content)
        raise Malformed("an unknown kind of value")

    def _call_back(self, message: list[Any]) -> None:
        """The candidate called a function of the test that it was handed."""
        function = self._resolve("yours", message[1])
        try:
            returned = function(*decode(message[2], self._resolve))
            answer = ["return", encode(returned, self._reference), []]
        except Exception as error:
            answer = ["raise", [base.__name__ for base in type(error).__mro__], str(error)[:1000]]
        self.channel.send(answer)

    def _update(self, arguments: list[Any], changes: Any) -> None:
        """Give arguments that the candidate changed in place their new content."""
        for index, content in changes:
            target, now = arguments[index], decode(content, self._resolve)
            if isinstance(target, list | bytearray) and isinstance(now, type(target)):
                target[:] = now
            elif isinstance(target, dict | set) and isinstance(now, type(target)):
                target.clear()
                target.update(now)
            elif isinstance(target, deque) and isinstance(now, deque):
                target.clear()
                target.extend(now)


class Remote:
    """Stands for an object in a candidate's process.

    Args:
        candidate: The conversation with it.
        number: The object's number there.
        mixed: Whether it came out of arithmetic with plain data, which may have been the expected value: then it decides
            nothing.
    """

    __slots__ = ("_candidate", "_mixed", "_number")

    def __init__(self, candidate: Candidate, number: int, mixed: bool = False) -> None:
        object.__setattr__(self, "_candidate", candidate)
        object.__setattr__(self, "_number", number)
        object.__setattr__(self, "_mixed", mixed)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _ask(self, "call", list(args), kwargs)

    def __getattr__(self, name: str) -> Any:
        return _ask(self, "getattr", name)

    def __setattr__(self, name: str, value: Any) -> None:
        _ask(self, "setattr", name, value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Remote):
            return False
        return _same(self, other) or bool(_ask(_decisive(self), "eq", _decisive(other)))

    def __ne__(self, other: object) -> bool:
        return not isinstance(other, Remote) or bool(_ask(_decisive(self), "ne", _decisive(other)))

    def __hash__(self) -> int:
        return hash(_number(self))

    def __bool__(self) -> bool:
        return bool(_ask(_decisive(self), "truth"))

    def __len__(self) -> int:
        return _plain(_ask(_decisive(self), "len"), int)

    def __str__(self) -> str:
        return _plain(_ask(self, "str"), str)

    def __repr__(self) -> str:
        return _plain(_ask(self, "repr"), str)

    def __iter__(self) -> Iterator[Any]:
        iterator = _ask(self, "iter")
        return iterator if isinstance(iterator, Remote) else iter(iterator)

    def __next__(self) -> Any:
        return _ask(self, "next")

    def __getitem__(self, key: Any) -> Any:
        return _ask(self, "getitem", key)

    def __setitem__(self, key: Any, value: Any) -> None:
        _ask(self, "setitem", key, value)

    def __delitem__(self, key: Any) -> None:
        _ask(self, "delitem", key)

    def __contains__(self, item: Any) -> bool:
        if isinstance(item, Remote):
            return bool(_ask(_decisive(self), "contains", _decisive(item)))
        return any(item == each for each in self)  # plain data is compared here, not by the candidate

    def __enter__(self) -> Any:
        return _ask(self, "enter")

    def __exit__(self, *_: Any) -> None:
        _ask(self, "exit")

    def __instancecheck__(self, instance: Any) -> bool:
        return isinstance(instance, Remote) and bool(_ask(self, "isinstance", instance))


def _instance(kind: type[Exception], text: str) -> Exception:
    try:
        return kind(text)
    except TypeError:  # one that wants more arguments, such as UnicodeDecodeError
        return kind.__new__(kind, text)


def _number(remote: Remote) -> int:
    number: int = object.__getattribute__(remote, "_number")
    return number


def _ask(remote: Remote, operation: str, *arguments: Any) -> Any:
    candidate: Candidate = object.__getattribute__(remote, "_candidate")
    return candidate.ask(operation, remote, *arguments)


def _same(left: Remote, right: Remote) -> bool:
    return _number(left) == _number(right)


def _plain(value: Any, kind: type[T]) -> T:
    if not isinstance(value, kind):
        raise TypeError(f"the candidate gave no {kind.__name__}")
    return value


def _decisive(remote: Remote) -> Remote:
    """The object, if what it says of itself may decide a test."""
    if object.__getattribute__(remote, "_mixed"):
        raise TypeError("an object of the candidate's that came out of arithmetic with plain data decides no test")
    return remote


def _between(operation: str, swapped: bool) -> Callable[[Remote, Any], Any]:
    """A binary operator. Beside plain data its result must be an object again: the candidate has seen the number that
    it may be compared with, and could answer with whatever makes the comparison true."""

    def operate(self: Remote, other: Any) -> Any:
        mixed = not isinstance(other, Remote) or any(object.__getattribute__(each, "_mixed") for each in (self, other))
        returned = _ask(self, operation, other, swapped)
        if not mixed:
            return returned
        if isinstance(returned, Remote):
            return Remote(object.__getattribute__(returned, "_candidate"), _number(returned), mixed=True)
        raise TypeError(f"{operation} of an object of the candidate's and plain data, with a plain result")

    return operate


def _ordered(operation: str) -> Callable[[Remote, Any], Any]:
    """An order between two objects of the candidate's; beside plain data there is none, whatever the object says."""

    def operate(self: Remote, other: Any) -> Any:
        if not isinstance(other, Remote):
            raise TypeError(f"{operation} of an object of the candidate's and plain data")
        return _ask(_decisive(self), operation, _decisive(other), False)

    return operate


for _name in ("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor"):
    setattr(Remote, f"__{_name}__", _between(_name, False))
    setattr(Remote, f"__r{_name}__", _between(_name, True))
for _name in ("lt", "le", "gt", "ge"):
    setattr(Remote, f"__{_name}__", _ordered(_name))
