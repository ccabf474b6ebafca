from __future__ import annotations

import pytest
from grpo_lightning_text.numbers_text import finite_numbers, last_list, numbers, times


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1 and 2.5", [1, 2.5]),
        ("-3, −4 and 5-6", [-3, -4, 5, 6]),
        (".5", [0.5]),
        ("no", []),
        ("x1=7;", [1, 7]),
        ("(1)-2", [1, 2]),
    ],
)
def test_numbers(text: str, found: list[float]) -> None:
    assert numbers(text) == found


def test_times() -> None:
    assert times("1:30") == [90]
    assert times("01:02:03.5 to 2:00:00") == [3723.5, 7200]
    assert times("3-7") == [3, 7]


def test_last_list() -> None:
    assert last_list("[1, 2], (3 4), [5]", 2) == [3, 4]
    assert last_list("x 1 y 2", 2) == [1, 2]
    assert last_list("1 2 3", 2) is None


def test_finite_numbers() -> None:
    assert finite_numbers([1, 2.5], 2) == [1, 2.5]
    assert finite_numbers("(1, 2)", 2) == [1, 2]
    for wrong in ([1], [1, "2"], [1, float("nan")], [1, True], None, 7):
        assert finite_numbers(wrong, 2) is None
