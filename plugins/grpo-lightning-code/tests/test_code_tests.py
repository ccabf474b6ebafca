from __future__ import annotations

import logging
import pickle
from typing import Any

import pytest
from grpo_lightning_code import CodeTests

import grpo_lightning
from grpo_lightning.errors import ConfigError, DataError
from grpo_lightning.testing.suites import RewardChecks


class TestConformance(RewardChecks):
    component = CodeTests


def whole(**settings: Any) -> CodeTests:
    return CodeTests(**{"code": "whole", "seconds": 20.0, **settings})


def test_share_of_the_tests_passed() -> None:
    tests = ["assert f(2) == 4", "assert f(0) == 0", "assert f(1) == 1", "assert f('a') == 'aa'"]
    reward = whole()
    rows = ["def f(x): return 2 * x", "def f(x): return x * x", "f = None", "def f(x:"]
    # doubling fails f(1) == 1; squaring fails f("a"); the others fail all
    assert reward.score(completions=rows, tests=[tests] * 4) == [0.75, 0.75, 0.0, 0.0]


def test_all_or_nothing() -> None:
    rows, tests = ["def f(x): return x", "def f(x): return 1"], [["assert f(1) == 1", "assert f(2) == 2"]] * 2
    assert whole(grade="all").score(completions=rows, tests=tests) == [1.0, 0.0]


def test_programs_cases_and_statements_in_one_row() -> None:
    tests = [
        {"stdin": "3 4\n", "stdout": "7"},
        {"stdin": "1 1\n", "stdout": "3"},
        {"function": "add", "args": [1, 2], "expected": 3},
        "assert add('a', 'b') == 'ab'",
    ]
    code = "def add(a, b): return a + b\nif __name__ == '__main__': print(add(*map(int, input().split())))"
    assert whole().score(completions=[code], tests=[tests]) == [0.75]


def test_code_is_found_in_the_last_block() -> None:
    text = "I think\n```python\ndef f(): return 0\n```\nNo:\n```python\ndef f(): return 1\n```"
    reward = CodeTests(seconds=20.0)
    assert reward.score(completions=[text, "def f(): return 1"], tests=[["assert f() == 1"]] * 2) == [1.0, 0.0]
    assert reward.answer(text) == "def f(): return 1"
    assert reward.answer("none") == ""


def test_text_before_the_code_comes_from_a_column() -> None:
    reward = CodeTests(code="opened", before="start", column="checks", seconds=20.0)
    assert reward.columns() == ["checks", "start"]
    row = {"completions": ["    return x + 1\n```\nDone."], "start": ["def f(x):\n"], "checks": ["assert f(1) == 2"]}
    assert reward.score(**row) == [1.0]


def test_rows_without_tests_abstain() -> None:
    assert whole().score(completions=["", ""], tests=[None, ["assert True"]]) == [None, 1.0]


def test_time_for_all_tests_of_a_completion() -> None:
    reward = whole(seconds=1.0, total_seconds=1.5)
    tests = ["import time\nf()\ntime.sleep(5)"] * 3 + ["assert f() is None"]
    assert reward.score(completions=["def f(): pass"], tests=[tests]) == [0.0]


def test_what_is_no_test_is_named_and_stops() -> None:
    with pytest.raises(DataError, match="tests: 7 is no test"):
        whole().score(completions=["x"], tests=[7])


def test_statuses_are_counted_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "grpo_lightning_code")
    whole().score(completions=["x = 1"], tests=[["assert x == 1", "assert x == 2", "y"]])
    assert "tests: 1 error, 1 failed, 1 passed" in caplog.text


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"code": "middle"}, "code: 'middle' is no place"),
        ({"grade": "some"}, "grade: 'some' is no grade"),
        ({"seconds": 0}, "seconds: 0 is outside"),
        ({"total_seconds": float("inf")}, "total_seconds: inf is outside"),
        ({"memory_mb": 8}, "memory_mb: 8 is outside"),
        ({"disk_mb": 0}, "disk_mb: 0 is outside"),
        ({"output_kb": 0}, "output_kb: 0 is outside"),
        ({"processes": 0}, "processes: 0 is outside"),
        ({"workers": 0}, "workers: 0 is outside"),
        ({"tolerance": -1}, "tolerance: -1 is outside"),
    ],
)
def test_settings_are_checked(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CodeTests(**settings)


def test_short_name_and_a_copy_in_another_process() -> None:
    reward = grpo_lightning.create("reward", "code_tests", code="whole", processes=2)
    again = pickle.loads(pickle.dumps(reward))
    assert again.score(completions=["x = 1"], tests=["assert x == 1"]) == [1.0]


def test_rows_with_equal_code_and_tests_are_run_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "grpo_lightning_code")
    one, true = ({"function": "f", "args": [], "expected": expected} for expected in (1, True))
    rows = ["def f(): return 1"] * 4
    assert whole().score(completions=rows, tests=[one, true, one, None]) == [1.0, 0.0, 1.0, None]
    assert "tests: 1 failed, 1 passed" in caplog.text
