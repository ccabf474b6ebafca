from __future__ import annotations

import pytest

from grpo_lightning.aggregations.token_mean import TokenMean
from helpers.update_rows import aggregated, update_rows


def test_by_hand() -> None:
    assert TokenMean().step_weights(update_rows()).tolist() == [0.1, 0.1, 0.1, 0.1]
    assert aggregated(TokenMean()) == pytest.approx((2 + 6 + 8 + 2) / 10)
