from __future__ import annotations

from typing import Any

import pytest
from grpo_lightning_text import IntervalIoU

from grpo_lightning.errors import DataError


@pytest.mark.parametrize(
    ("completion", "score"),
    [
        ("[2, 6]", 1.0),
        ("from 4 to 8 s", 2 / 6),
        ("2-6", 1.0),  # a dash
        ("0:02 - 0:06", 1.0),
        ("step 1: 3 to 5", 2 / 4),  # the last two
        ("[6, 9]", 0.0),  # one point in common
        ("[7, 9]", 0.0),
        ("[6, 2]", 0.0),
        ("[3, 3]", 0.0),
        ("4", 0.0),
        ("", 0.0),
    ],
)
def test_worked_out_by_hand(completion: str, score: float) -> None:
    assert IntervalIoU().score(completions=[completion], answer=[[2, 6]]) == [pytest.approx(score)]


def test_text_in_the_column_and_pattern() -> None:
    reward = IntervalIoU(column="when", pattern="<t>(.*?)</t>")
    assert reward.score(completions=["<t>60 90</t> 1 2", "60 90"], when=["1:00-1:30", "1:00-1:30"]) == [1.0, 0.0]
    assert reward.score(completions=["<t>1 2</t>"], when=[None]) == [None]


@pytest.mark.parametrize("wrong", [[2, 2], [3, 2], [1], "at 5", [0, float("inf")], 7])
def test_right_interval_has_a_length(wrong: Any) -> None:
    with pytest.raises(DataError, match="is no interval of positive length"):
        IntervalIoU().score(completions=["1 2"], answer=[wrong])
