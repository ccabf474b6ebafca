from __future__ import annotations

import pytest

from grpo_lightning.aggregations.sequence_mean_token_mean import SequenceMeanTokenMean
from helpers.update_rows import aggregated, update_rows


def test_by_hand() -> None:
    weights = SequenceMeanTokenMean().step_weights(update_rows()).tolist()
    assert weights == pytest.approx([1 / 4, 1 / 12, 1 / 8, 1 / 16])
    assert aggregated(SequenceMeanTokenMean()) == pytest.approx((2 / 1 + 6 / 3 + 8 / 2 + 2 / 4) / 4)
