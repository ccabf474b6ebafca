from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from grpo_lightning.losses.planned import marks, planned
from helpers.adversarial import Row, inputs_of


def test_marks_are_ones_at_their_places() -> None:
    found = marks(torch.tensor([3, 0]), torch.zeros(5))
    assert found.dtype == torch.float64
    assert found.tolist() == [1.0, 0.0, 0.0, 1.0, 0.0]
    assert marks(torch.zeros(0, dtype=torch.int64), torch.zeros(2)).tolist() == [0.0, 0.0]


def test_a_plan_comes_back_in_any_dtype() -> None:
    inputs = inputs_of([Row(0, [-1.0, -2.0], [-1.0, -2.0], [-1.0, -2.0], [1.0, 1.0])])
    for dtype in (torch.float32, torch.float64, torch.int64):
        assert planned(replace(inputs, plan_S=torch.tensor([0, 1], dtype=dtype)), "kl_cov").tolist() == [False, True]


def test_a_missing_plan_is_named() -> None:
    with pytest.raises(ValueError, match=r"kl_cov.*plan"):
        planned(inputs_of([Row(0, [-1.0], [-1.0], [-1.0], [1.0])]), "kl_cov")
