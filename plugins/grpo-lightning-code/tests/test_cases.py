from __future__ import annotations

import json
from typing import Any

import pytest
from grpo_lightning_code.cases import Case, Program, Statements, read_tests

from grpo_lightning.errors import DataError


@pytest.mark.parametrize(
    ("value", "tests"),
    [
        ("assert f() == 1", [Statements("assert f() == 1")]),
        (["assert a", "assert b"], [Statements("assert a"), Statements("assert b")]),
        ({"stdin": "1\n", "stdout": "2\n"}, [Program("1\n", "2\n")]),
        ({"function": "f", "args": [1], "expected": 2}, [Case("f", (1,), {}, 2)]),
        ({"function": "f", "kwargs": {"a": 1}, "expected": None}, [Case("f", (), {"a": 1}, None)]),
        ({"function": "f", "cases": [[[1], 2], [[3, 4], 5]]}, [Case("f", (1,), {}, 2), Case("f", (3, 4), {}, 5)]),
        # what a table makes of rows with different keys
        ({"stdin": "", "stdout": "1", "function": None, "args": None, "expected": None}, [Program("", "1")]),
        (["assert a", {"stdin": "", "stdout": ""}], [Statements("assert a"), Program("", "")]),
    ],
)
def test_forms(value: Any, tests: list[Any]) -> None:
    assert read_tests(value, "tests") == tests
    if not isinstance(value, str):
        assert read_tests(json.dumps(value), "tests") == tests


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "holds no test"),
        (7, "is no test"),
        ([7], "is no test"),
        ("[1, 2", "begins like JSON but is none"),
        ({"stdin": 1, "stdout": "2"}, "is no text"),
        ({"function": "f", "args": [1]}, "is no test"),
        ({"function": 1, "args": [1], "expected": 1}, "is no test"),
        ({"function": "f", "args": 1, "expected": 1}, "is no test"),
        ({"function": "f", "expected": 1, "other": 2}, "is no test"),
        ({"function": "f", "cases": [[1, 2, 3]]}, "is no list of pairs"),
        ({"function": "f", "cases": 3}, "is no list of pairs"),
    ],
)
def test_what_is_no_test_is_named(value: Any, message: str) -> None:
    with pytest.raises(DataError, match=f"tests: .*{message}"):
        read_tests(value, "tests")


@pytest.mark.parametrize(
    ("printed", "right"),
    [
        (b"1\n2\n", True),
        (b"1\n2", True),
        (b"1  \n2\n\n\n", True),
        (b"1\r\n2", True),
        (b"1 2", False),
        (b" 1\n2", False),
    ],
)
def test_output_is_compared_line_by_line(printed: bytes, right: bool) -> None:
    assert Program("", "1\n2\n").accepts(printed) is right
