from __future__ import annotations

from textwrap import dedent
from typing import Any

import pytest
from grpo_lightning_code.inside.judge import equal
from grpo_lightning_code.sandbox import Job, Limits, Outcome, run


def judged(source: str, test: str | dict[str, Any]) -> Outcome:
    statements = {"source": dedent(test)} if isinstance(test, str) else test
    return run(Job(source=dedent(source), test=statements), Limits(wall_seconds=20.0))


def case(function: str, *args: Any, expected: Any, tolerance: float = 0.0, **kwargs: Any) -> dict[str, Any]:
    call = {"function": function, "args": list(args), "kwargs": kwargs}
    return {**call, "expected": expected, "tolerance": tolerance}


FUNCTIONS = """
    import math
    from collections import Counter, deque
    from dataclasses import dataclass
    from decimal import Decimal
    from fractions import Fraction
    import datetime

    LIMIT = [1, 2]

    class TooMuch(ValueError): pass

    def double(x): return 2 * x
    def negative(x):
        if x < 0: raise ValueError("below zero")
        if x > 9: raise TooMuch("above nine")
        return math.sqrt(x)
    def sort_in_place(items): items.sort()
    def drop(mapping): mapping.clear()
    def apply(function, items): return [function(item) for item in items]
    def count_up(n):
        for i in range(n): yield i
    def kinds(): return {"a": (1, {2}), 3: [None, True, 1.5, b"x", 2 ** 20000, range(3), 1j]}
    def library(): return [Decimal("1.10"), Fraction(1, 3), datetime.date(2024, 2, 29), deque([1]), Counter("aab")]
    def sum(items): return "mine"

    @dataclass
    class Point:
        x: int
        y: int
        def __add__(self, other): return Point(self.x + other.x, self.y + other.y)
        def __mul__(self, by): return Point(self.x * by, self.y * by)
        def length(self): return math.hypot(self.x, self.y)

    class Stack:
        def __init__(self): self.items = []
        def push(self, item): self.items.append(item); return self
        def pop(self): return self.items.pop()
        def __len__(self): return len(self.items)
        def __iter__(self): return iter(self.items)
        def __getitem__(self, index): return self.items[index]
        def __enter__(self): return self
        def __exit__(self, *_): self.items = ["left"]
"""


@pytest.mark.parametrize(
    "test",
    [
        "assert double(2) == 4 and double('ab') == 'abab' and double([1]) == [1, 1]",
        "assert math.isclose(negative(2), 1.41421356, rel_tol=1e-6)",
        "x = [3, 1, 2]\nassert sort_in_place(x) is None\nassert x == [1, 2, 3]",
        "x = {1: 2}\ndrop(x)\nassert x == {}",
        "assert apply(lambda x: x + 1, [1, 2]) == [2, 3]",
        "def check(candidate):\n    for i in range(3):\n        assert candidate(i) == 2 * i\ncheck(double)",
        "try:\n    negative(-1)\nexcept ValueError as error:\n    assert str(error) == 'below zero'\nelse:\n    assert False",
        "try:\n    negative(10)\nexcept TooMuch:\n    pass\nelse:\n    assert False",
        "try:\n    negative(10)\nexcept ValueError:\n    pass\nelse:\n    assert False",
        "assert list(count_up(3)) == [0, 1, 2]\nassert [x for x in count_up(2)] == [0, 1]",
        "assert kinds() == {'a': (1, {2}), 3: [None, True, 1.5, b'x', 2 ** 20000, range(3), 1j]}",
        "assert [type(x).__name__ for x in library()[:3]] == ['Decimal', 'Fraction', 'date']",
        "assert str(library()[0]) == '1.10' and library()[3][0] == 1 and library()[4] == {'a': 2, 'b': 1}",
        "assert sum([1, 2]) == 3",  # Python's own: a candidate cannot replace what tests compare with
        "assert LIMIT == [1, 2]",
        "assert Point(1, 2) == Point(1, 2) and Point(1, 2) != Point(2, 1)",
        "assert (Point(1, 2) + Point(3, 4)).x == 4 and Point(3, 4).length() == 5.0",
        "assert (Point(1, 2) * 3).y == 6 and isinstance(Point(1, 2), Point)",
        "s = Stack()\ns.push(1).push(2)\nassert len(s) == 2 and s.pop() == 2 and s[0] == 1 and 1 in s and 5 not in s",
        "s = Stack()\nwith s as t:\n    t.push(3)\nassert s.items == ['left'] and bool(s)",
        "p = Point(1, 2)\np.x = 7\nassert p.x == 7 and repr(p) == 'Point(x=7, y=2)'",
        "import unittest\nunittest.TestCase().assertEqual(double(3), 6)",
    ],
)
def test_passes(test: str) -> None:
    outcome = judged(FUNCTIONS, test)
    assert (outcome.status, outcome.detail) == ("passed", "")


@pytest.mark.parametrize(
    ("test", "status", "detail"),
    [
        ("assert double(2) == 5", "failed", "AssertionError"),
        ("assert double(2) == 5, 'no'", "failed", "no"),
        ("assert missing(2) == 5", "error", "name 'missing' is not defined"),
        ("assert negative(-1)", "error", "ValueError: below zero"),
        ("assert double.secret", "error", "AttributeError"),
        ("assert Point(1, 2) == (1, 2)", "failed", ""),
        ("assert abs(Point(1, 2)) == 1", "error", "TypeError"),
        ("assert double(object())", "error", "cannot be handed"),
        ("assert (", "error", "SyntaxError"),
    ],
)
def test_does_not_pass(test: str, status: str, detail: str) -> None:
    outcome = judged(FUNCTIONS, test)
    assert outcome.status == status
    assert detail in outcome.detail


def test_number_of_a_hidden_object_cannot_be_compared_by_arithmetic() -> None:
    source = """
        class Zero:
            def __sub__(self, other): return 0.0
            def __abs__(self): return 0.0
        def f(x): return Zero()
    """
    assert judged(source, "assert abs(f(2) - 4.0) < 1e-6").status == "error"
    every = """
        class All:
            def __contains__(self, item): return True
            def __iter__(self): return iter(())
        def f(): return All()
    """
    assert judged(every, "assert 4 in f()").status == "failed"
    mine = "def abs(x): return 0.0\nclass math:\n    isclose = lambda *_: True\ndef f(x): return 1"
    assert judged(mine, "assert abs(f(2) - 4.0) < 1e-6").status == "failed"
    assert judged(mine, "assert math.isclose(f(2), 4.0)").status == "failed"


def test_leaving_is_no_pass_even_where_a_test_catches_everything() -> None:
    outcome = judged("import os\ndef f(): os._exit(0)", "try:\n    f()\nexcept:\n    pass")
    assert (outcome.status, outcome.detail) == ("error", "the process ended during the test")


def test_cases() -> None:
    source = "def f(a, b=1): return (a, [b])\ndef third(): return 1 / 3\nclass Odd: pass\ndef odd(): return Odd()"
    assert judged(source, case("f", 2, expected=[2, [1]])).status == "passed"
    assert judged(source, case("f", 2, expected=[2, [5]], b=5)).status == "passed"
    assert judged(source, case("f", 2, expected=[2, [6]])).status == "failed"
    assert judged(source, case("third", expected=0.3333)).status == "failed"
    assert judged(source, case("third", expected=0.3333, tolerance=1e-3)).status == "passed"
    assert judged(source, case("odd", expected=None)).status == "failed"
    assert judged(source, case("absent", expected=1)).detail == "NameError: the candidate defines no absent"


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ((1, [2, (3,)]), [1, [2, [3]]], True),
        (1, True, False),
        (True, True, True),
        (1, 1.0, True),
        (100.0, 100.5, True),  # within 1 % of 100.5
        (0.0, 0.005, True),
        (0.0, 0.05, False),
        ([1], [1, 1], False),
        ({"a": 1.0}, {"a": 1.001}, True),
        ({"a": 1}, {"b": 1}, False),
        (float("nan"), float("nan"), False),
        ("1", 1, False),
        (None, None, True),
    ],
)
def test_equality_of_plain_data(left: Any, right: Any, same: bool) -> None:
    assert equal(left, right, 0.01) is same
