from __future__ import annotations

import pytest

from grpo_lightning.aggregations.sequence_mean_token_sum import SequenceMeanTokenSum
from helpers.update_rows import aggregated, update_rows


def test_by_hand() -> None:
    assert SequenceMeanTokenSum().step_weights(update_rows()).tolist() == [0.25, 0.25, 0.25, 0.25]
    assert aggregated(SequenceMeanTokenSum()) == pytest.approx((2 + 6 + 8 + 2) / 4)
