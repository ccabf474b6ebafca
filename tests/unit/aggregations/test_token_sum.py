from __future__ import annotations

from grpo_lightning.aggregations.token_sum import TokenSum
from helpers.update_rows import aggregated, update_rows


def test_by_hand() -> None:
    assert TokenSum().step_weights(update_rows()).tolist() == [1.0, 1.0, 1.0, 1.0]
    assert aggregated(TokenSum()) == 2 + 6 + 8 + 2
