"""Where two values differ."""

from __future__ import annotations

import re
import threading
from typing import Any

import numpy as np
import pytest
import torch

from grpo_lightning.rollout_table import RolloutTable
from grpo_lightning.testing.difference import difference
from grpo_lightning.types import Ragged

NAN = float("nan")


class Thing:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, 1),
        (NAN, NAN),
        ([1, (2, "a")], (1, [2, "a"])),
        ({"a": torch.tensor([1.0, NAN])}, {"a": torch.tensor([1.0, NAN])}),
        (np.array([1.0, NAN]), np.array([1.0, NAN])),
        (Ragged.from_list([[1], [2, 3]], torch.int64), Ragged.from_list([[1], [2, 3]], torch.int64)),
        (RolloutTable.of([1.0, None], [0, 0]), RolloutTable.of([1.0, None], [0, 0])),
        (Thing(a=[1], _private=2), Thing(a=[1], _private=3)),
        (threading.Lock(), threading.Lock()),
        (re.compile("a"), re.compile("a")),
        (len, len),
    ],
    ids=str,
)
def test_equal(left: Any, right: Any) -> None:
    assert difference(left, right) is None


@pytest.mark.parametrize(
    ("left", "right", "told"),
    [
        (1, 2, "it is 1 and 2"),
        (1, 1.0, "it is 1 and 1.0"),
        (True, 1, "it is True and 1"),
        ([1, 2], [1], "it has 2 and 1 entries"),
        ({"a": 1}, {"a": 1, "b": 2}, "it['b'] is in the other only"),
        ({"a": [1, {"c": 2}]}, {"a": [1, {"c": 3}]}, "it['a'][1]['c'] is 2 and 3"),
        (torch.float32, torch.float64, "it is torch.float32 and torch.float64"),
        (torch.ones(1), torch.ones(1, dtype=torch.float64), "it is tensor([1.]) and"),
        (RolloutTable.of([1.0], [0]), RolloutTable.of([2.0], [0]), "it['rewards_R'] is"),
        (Thing(a=1), Thing(a=2), "it['a'] is 1 and 2"),
        (re.compile("a"), re.compile("b"), "it is re.compile('a') and re.compile('b')"),
        (len, max, "it is <built-in function len> and <built-in function max>"),
        (None, 0, "it is None and 0"),
    ],
    ids=str,
)
def test_different(left: Any, right: Any, told: str) -> None:
    assert (difference(left, right) or "").startswith(told)


def test_values_that_hold_themselves_end() -> None:
    left, right = Thing(a=1), Thing(a=1)
    left.self, right.self = left, right
    assert difference(left, right) is None
