"""Candidates that have not computed the answer and want a test to pass all the same."""

from __future__ import annotations

import time
from typing import Any

import pytest
from grpo_lightning_code import CodeTests
from grpo_lightning_code.extraction import extract_code

ALWAYS = """
class Yes:
    def __bool__(self): return {truth}
    def itself(self, *_): return self
    __lt__ = __gt__ = __le__ = __ge__ = __sub__ = __rsub__ = __pow__ = __xor__ = itself
def f(x): return Yes()
"""
"""An object that is whatever a comparison wants."""


def score(source: str, test: Any, **options: Any) -> float | None:
    (found,) = CodeTests(code="whole", workers=1, **options).score(completions=[source], tests=[[test]])
    return found


@pytest.mark.parametrize(
    ("truth", "test"),
    [
        (True, "assert 3.999 < f(2) < 4.001"),
        (True, "assert (f(2) - 4.0) ** 2 < 1e-12"),
        (True, "assert -1e-6 < f(2) - 4.0 < 1e-6"),
        (True, "assert f(2) >= 4 and f(2) <= 4"),
        (False, "assert not f(2) - 4"),
        (False, "assert not f(2) ^ {1, 2, 3}"),
    ],
)
def test_an_object_decides_no_comparison_with_plain_data(truth: bool, test: str) -> None:
    assert score(ALWAYS.format(truth=truth), test) == 0.0


def test_objects_of_the_candidate_are_still_compared_with_each_other() -> None:
    source = (
        "class Money:\n"
        "    def __init__(self, cents): self.cents = cents\n"
        "    def __eq__(self, other): return self.cents == other.cents\n"
        "    def __lt__(self, other): return self.cents < other.cents\n"
        "    def __add__(self, other): return Money(self.cents + other.cents)\n"
        "    def __mul__(self, times): return Money(self.cents * times)\n"
    )
    assert score(source, "assert Money(3) + Money(4) == Money(7) and Money(3) < Money(4)") == 1.0
    assert score(source, "assert (Money(3) * 2).cents == 6") == 1.0


@pytest.mark.parametrize("value", ["inf", "nan", "-inf", "1e308"])
def test_a_tolerance_is_measured_by_the_expected_number(value: str) -> None:
    case = {"function": "f", "args": [2], "expected": 4}
    assert score(f"def f(x): return float('{value}')", case, tolerance=1e-6) == 0.0
    assert score("def f(x): return 4.000001", case, tolerance=1e-6) == 1.0


@pytest.mark.parametrize(
    "test",
    [
        "for got, want in zip(map(f, [1, 2, 3]), [1, 4, 9]):\n    assert got == want",
        "assert all(map(lambda case: f(case[0]) == case[1], [(1, 1), (2, 4)]))",
    ],
)
def test_stop_iteration_does_not_end_the_tests_own_loop(test: str) -> None:
    assert score("def f(x): raise StopIteration", test) == 0.0
    assert score("def f(x): return x * x", test) == 1.0


@pytest.mark.parametrize("name", ["Exception", "AssertionError", "BaseException"])
def test_a_name_of_the_candidate_does_not_catch_the_tests_own_failure(name: str) -> None:
    test = "try:\n    f(-1)\n    assert False, 'must raise'\nexcept TooLittle:\n    pass"
    assert score(f"TooLittle = {name}\ndef f(x): pass", test) == 0.0
    assert score("class TooLittle(Exception): pass\ndef f(x): raise TooLittle", test) == 1.0


@pytest.mark.timeout(60)
def test_a_source_that_compiles_to_gigabytes_is_an_error() -> None:
    body = "x = 1"
    for _ in range(14):
        body = "try:\n    return\nfinally:\n" + "\n".join("    " + line for line in body.splitlines())
    source = "def f():\n" + "\n".join("    " + line for line in body.splitlines())
    assert score(source, "assert True") == 0.0


@pytest.mark.timeout(20)
@pytest.mark.parametrize("text", ["~~~" + " " * 200_000 + "`", "~" * 200_000 + "`", "`" * 200_000, " \n" * 200_000])
def test_finding_the_code_takes_no_longer_than_the_text(text: str) -> None:
    start = time.monotonic()
    assert extract_code(text, where="block", languages=["python"]) is None
    extract_code(text, where="opened", languages=["python"])
    assert time.monotonic() - start < 2
