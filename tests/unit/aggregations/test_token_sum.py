from __future__ import annotations

from helpers.update_rows import aggregated, update_rows

from grpo_lightning.aggregations.token_sum import TokenSum


def test_by_hand() -> None:
    assert TokenSum().step_weights(update_rows()).tolist() == [1.0, 1.0, 1.0, 1.0]
    assert aggregated(TokenSum()) == 2 + 6 + 8 + 2
