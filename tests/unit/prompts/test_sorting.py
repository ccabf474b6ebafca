from __future__ import annotations

from typing import Any

import pytest

from grpo_lightning.errors import ConfigError, DataError
from grpo_lightning.prompts.sorting import Sorting


def rows(**settings: Any) -> list[dict[str, Any]]:
    source = Sorting(**settings)
    source.load()
    return list(source)


def test_rows() -> None:
    drawn = rows(count=200)
    assert len({row["prompt"] for row in drawn}) == 200
    for row in drawn:
        digits = row["prompt"].removesuffix(">")
        assert len(digits) == 4
        assert row == {"prompt": f"{digits}>", "answer": "".join(sorted(digits))}


def test_splits_are_disjoint_and_all() -> None:
    train = {row["prompt"] for row in rows(length=2)}
    held_out = {row["prompt"] for row in rows(length=2, split="held_out", seed=9)}
    assert train.isdisjoint(held_out)
    assert train | held_out == {f"{number:02d}>" for number in range(100)}


def test_long_prompts() -> None:
    assert len(rows(count=20, length=12)) == 20


def test_too_many() -> None:
    with pytest.raises(DataError, match=r"^count: 11 is more than the \d different questions"):
        rows(count=11, length=1)


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"^length: "):
        Sorting(length=0)
