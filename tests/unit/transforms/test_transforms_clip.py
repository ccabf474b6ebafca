from __future__ import annotations

import math

import pytest
import torch

from grpo_lightning.errors import ConfigError
from grpo_lightning.transforms.clip import ClipAdvantage
from helpers.tables import reward_table
from helpers.tiny_rollouts import tiny_rollouts


def test_by_hand() -> None:
    advantages = torch.tensor([-3.0, -0.5, 0.0, 0.5, 2.0, 7.0], dtype=torch.float64)
    clipped = ClipAdvantage(limit=2.0)(advantages, reward_table([[0.0] * 6]), tiny_rollouts([1] * 6))
    assert clipped.tolist() == [-2.0, -0.5, 0.0, 0.5, 2.0, 2.0]
    assert clipped.dtype == torch.float64
    assert advantages.tolist()[0] == -3.0, "what it is given stays as it is"


def test_it_works_on_rows() -> None:
    assert ClipAdvantage(limit=1.0).level == "row"


@pytest.mark.parametrize("limit", [0.0, -1.0, math.inf, math.nan])
def test_limits_that_are_not_positive_numbers_are_refused(limit: float) -> None:
    with pytest.raises(ConfigError, match=r"^limit: "):
        ClipAdvantage(limit=limit)
