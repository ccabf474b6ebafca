from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from grpo_lightning.errors import ConfigError
from grpo_lightning.rewards.function import FunctionReward


def short(completions: list[str], limit: int = 3) -> list[float]:
    return [float(len(completion) <= limit) for completion in completions]


class Counter:
    def __call__(self, completions: list[str]) -> list[float]:
        return [float(len(completion)) for completion in completions]


def test_calls_the_function_by_name() -> None:
    reward = FunctionReward(function=short)
    assert reward.score(completions=["yes", "maybe"]) == [1.0, 0.0]
    assert reward.scorer() is short


def test_import_path() -> None:
    assert FunctionReward(function="math.fsum").function([1, 2]) == 3.0


@pytest.mark.parametrize(
    ("function", "label"),
    [(short, "short"), (partial(short, limit=1), "short"), (Counter(), "Counter"), (lambda completions: [], "lambda")],
)
def test_label(function: Any, label: str) -> None:
    assert FunctionReward(function=function).label == label


@pytest.mark.parametrize("function", ["no_such_module.f", "math.no_such_name", "nodots", "", "math.pi", 7, Counter])
def test_what_cannot_be_called_is_named(function: Any) -> None:
    with pytest.raises(ConfigError, match=r"^function: "):
        FunctionReward(function=function)
