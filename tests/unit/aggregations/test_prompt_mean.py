from __future__ import annotations

import pytest

from grpo_lightning.aggregations.prompt_mean import PromptMean
from helpers.update_rows import aggregated, update_rows


def test_by_hand() -> None:
    # Group 7 has rows of 1, 3 and 4 steps, group 9 one of 2.
    weights = PromptMean().step_weights(update_rows()).tolist()
    assert weights == pytest.approx([1 / 16, 1 / 16, 1 / 4, 1 / 16])
    assert aggregated(PromptMean()) == pytest.approx(((2 + 6 + 2) / 8 + 8 / 2) / 2)
