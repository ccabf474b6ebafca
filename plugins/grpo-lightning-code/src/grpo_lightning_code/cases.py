"""The tests in a column of the data."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from grpo_lightning.errors import DataError
from grpo_lightning_code.sandbox.run import Job

_CASE = {"function", "args", "kwargs", "expected"}
_FIX = "see the README of grpo-lightning-code for the forms of tests"


@dataclass(frozen=True)
class Statements:
    """Python statements, such as asserts, that must run to their end."""

    source: str

    def job(self, code: str, *, tolerance: float) -> Job:
        """What to run to put ``code`` to this test."""
        return Job(source=code, test={"source": self.source})


@dataclass(frozen=True)
class Case:
    """A call of a function and what it must return."""

    function: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    expected: Any

    def job(self, code: str, *, tolerance: float) -> Job:
        """What to run to put ``code`` to this test."""
        call = {"function": self.function, "args": list(self.args), "kwargs": self.kwargs}
        return Job(source=code, test={**call, "expected": self.expected, "tolerance": tolerance})


@dataclass(frozen=True)
class Program:
    """Input of a whole program and what it must print."""

    stdin: str
    stdout: str

    def job(self, code: str, *, tolerance: float) -> Job:
        """What to run to put ``code`` to this test."""
        return Job(source=code, stdin=self.stdin.encode("utf-8", "surrogatepass"))

    def accepts(self, stdout: bytes) -> bool:
        """Whether an output is the right one; spaces at the ends of lines and empty lines at the end do not count."""
        return _lines(stdout.decode("utf-8", "replace")) == _lines(self.stdout)


Test = Statements | Case | Program


def read_tests(value: Any, column: str) -> list[Test]:
    """The tests that a value of the column stands for.

    Args:
        value: A list of tests, one test, or JSON text of either. A test is a text of Python statements, a mapping
            ``{stdin, stdout}``, or a mapping ``{function, args, expected}``, with ``kwargs`` too. A mapping
            ``{function, cases: [[args, expected], ...]}`` stands for several of the latter.
        column: Name of the column, for messages.

    Raises:
        DataError: If it is none of these, or an empty list.
    """
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise DataError(column, value, f"begins like JSON but is none ({error})", _FIX) from None
    tests = [test for each in (value if isinstance(value, list | tuple) else [value]) for test in _read(each, column)]
    if not tests:
        raise DataError(column, value, "holds no test", "give the row at least one, or None for a row without")
    return tests


def _read(value: Any, column: str) -> list[Test]:
    if isinstance(value, str):
        return [Statements(value)]
    if not isinstance(value, dict):
        raise DataError(column, value, "is no test", _FIX)
    # A table of rows with different keys fills the gaps with None.
    given = {key: item for key, item in value.items() if item is not None or key == "expected"}
    if given.keys() - {"expected"} == {"stdin", "stdout"}:
        return [Program(_text(given["stdin"], column), _text(given["stdout"], column))]
    if given.keys() >= {"function", "cases"}:
        cases = given["cases"]
        if not isinstance(cases, list | tuple) or not all(
            isinstance(case, list | tuple) and len(case) == 2 for case in cases
        ):
            raise DataError(column, cases, "is no list of pairs [args, expected]", _FIX)
        return [
            _case({"function": given["function"], "args": args, "expected": wanted}, column) for args, wanted in cases
        ]
    return [_case(given, column)]


def _case(value: dict[str, Any], column: str) -> Case:
    args, kwargs = value.get("args", []), value.get("kwargs", {})
    fits = value.keys() <= _CASE and {"function", "expected"} <= value.keys() and isinstance(kwargs, dict)
    if not (fits and isinstance(value["function"], str) and isinstance(args, list | tuple)):
        raise DataError(column, value, "is no test", _FIX)
    return Case(value["function"], tuple(args), kwargs, value["expected"])


def _text(value: Any, column: str) -> str:
    if not isinstance(value, str):
        raise DataError(column, value, "is no text", "write stdin and stdout as texts")
    return value


def _lines(text: str) -> list[str]:
    lines = [line.rstrip() for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines
