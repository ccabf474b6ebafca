from __future__ import annotations

import pytest
from grpo_lightning_text import BoxGIoU

from grpo_lightning.errors import DataError


@pytest.mark.parametrize(
    ("completion", "score"),
    [
        ("[0, 0, 2, 2]", 1.0),
        ("[2, 0, 4, 2]", 1 / 2),  # IoU 0, C = their union: (1 + 0 - 0) / 2
        ("[4, 0, 6, 2]", 1 / 3),  # C = 12, union 8: (1 - 4/12) / 2
        ("[1, 1, 3, 3]", (1 / 7 + 7 / 9) / 2),  # overlap 1, union 7, C = 9
        ("[0, 0, 0, 2]", 0.0),
        ("", 0.0),
    ],
)
def test_worked_out_by_hand(completion: str, score: float) -> None:
    assert BoxGIoU().score(completions=[completion], answer=[[0, 0, 2, 2]]) == [pytest.approx(score)]


def test_right_box_has_an_area() -> None:
    with pytest.raises(DataError):
        BoxGIoU().score(completions=[""], answer=[[0, 0, 0, 0]])
    assert BoxGIoU().score(completions=[""], answer=[None]) == [None]
