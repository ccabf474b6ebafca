from __future__ import annotations

from typing import Any

import pytest

from grpo_lightning.errors import ConfigError, DataError
from grpo_lightning.prompts.records import Records


def test_rows() -> None:
    source = Records(
        rows=[{"answer": 5, "prompt": "2+3="}, {"prompt": [{"role": "user", "content": "x"}], "hint": "y"}]
    )
    source.load()
    assert (len(source), source.columns) == (2, ["prompt", "answer", "hint"])
    assert source[0] == {"prompt": "2+3=", "answer": 5, "hint": None}
    assert source[1] == {"prompt": [{"role": "user", "content": "x"}], "answer": None, "hint": "y"}
    with pytest.raises(IndexError):
        source[2]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("x", "is row 2, and no dictionary"),
        ({"a": 1}, "and has no `prompt`"),
        ({"prompt": 7}, "row 2: its prompt is of"),
    ],
)
def test_faults_are_named_by_row(row: Any, reason: str) -> None:
    with pytest.raises(DataError, match=rf"^rows: .*{reason}"):
        Records(rows=[{"prompt": "a"}, row]).load()


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"^rows: "):
        Records(rows=[])
    with pytest.raises(RuntimeError, match="call load"):
        _ = Records(rows=[{"prompt": "a"}]).columns
