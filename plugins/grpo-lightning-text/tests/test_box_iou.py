from __future__ import annotations

from typing import Any

import pytest
from grpo_lightning_text import BoxIoU

from grpo_lightning.errors import ConfigError, DataError


@pytest.mark.parametrize(
    ("completion", "score"),
    [
        ("[0, 0, 4, 2]", 1.0),  # 4 x 2 = 8
        ("The box is (2, 0, 6, 2).", 1 / 3),  # 2 x 2 = 4 of 8 + 8 - 4
        ("[0, 0, 2, 1] no, [0, 0, 4, 1]", 1 / 2),  # the last one: 4 of 8
        ("0 0 4 2", 1.0),
        ("x1=0 y1=0 x2=4 y2=2", 0.0),  # eight numbers
        ("[4, 0, 8, 2]", 0.0),  # an edge in common
        ("[-4, -2, 4, 2]", 8 / 32),
        ("[4, 2, 0, 0]", 0.0),  # corners in the wrong order
        ("[1, 1, 1, 2]", 0.0),  # no width
        ("[0, 0, 4]", 0.0),
        ("[0, 0, NaN, 2]", 0.0),
        ("", 0.0),
    ],
)
def test_worked_out_by_hand(completion: str, score: float) -> None:
    assert BoxIoU().score(completions=[completion], answer=[[0, 0, 4, 2]]) == [pytest.approx(score)]


def test_formats_agree() -> None:
    boxes = {"xyxy": ("[2, 0, 6, 2]", [0, 0, 4, 2]), "xywh": ("[2, 0, 4, 2]", [0, 0, 4, 2]),
             "cxcywh": ("[4, 1, 4, 2]", [2, 1, 4, 2])}  # fmt: skip
    for format, (completion, right) in boxes.items():
        assert BoxIoU(format=format).score(completions=[completion], answer=[right]) == [pytest.approx(1 / 3)]
    assert BoxIoU(format="xywh").score(completions=["[0, 0, -4, 2]"], answer=[[0, 0, 4, 2]]) == [0.0]


def test_pattern_and_text_in_the_column() -> None:
    reward = BoxIoU(column="where", pattern="<box>(.*?)</box>")
    completions = ["<box>[0,0,4,2]</box> [9,9,9,9]", "[0,0,4,2]", "x"]
    assert reward.score(completions=completions, where=["0 0 4 2", "0 0 4 2", None]) == [1.0, 0.0, None]


@pytest.mark.parametrize("wrong", [[1, 1, 1, 1], [2, 2, 1, 1], [1, 2, 3], "here", [0, 0, float("nan"), 1], 7])
def test_right_box_has_an_area(wrong: Any) -> None:
    with pytest.raises(DataError, match="is no xyxy box of positive area"):
        BoxIoU().score(completions=["[0,0,1,1]"], answer=[wrong])


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigError, match="format"):
        BoxIoU(format="yxyx")
    with pytest.raises(ConfigError, match="pattern"):
        BoxIoU(pattern="[0-9]")
