"""What holds for every aggregation that comes with the package."""

from __future__ import annotations

import pytest
import torch

from grpo_lightning.aggregations import (
    Aggregation,
    ConstantLength,
    PromptMean,
    SequenceMeanTokenMean,
    SequenceMeanTokenSum,
    TokenMean,
    TokenSum,
)
from helpers.update_rows import update_rows

EVERY = [
    ConstantLength(length=16),
    PromptMean(),
    SequenceMeanTokenMean(),
    SequenceMeanTokenSum(),
    TokenMean(),
    TokenSum(),
]
every = pytest.mark.parametrize("aggregation", EVERY, ids=lambda each: each.name)


@every
def test_one_weight_a_row_in_float64(aggregation: Aggregation) -> None:
    weights = aggregation.step_weights(update_rows())
    assert weights.shape == (4,)
    assert weights.dtype == torch.float64
    assert (weights > 0).all()


@every
def test_an_update_without_rows(aggregation: Aggregation) -> None:
    weights = aggregation.step_weights(update_rows([], []))
    assert weights.shape == (0,)
    assert weights.dtype == torch.float64


@every
def test_weights_follow_their_rows(aggregation: Aggregation) -> None:
    rows, order = update_rows(), torch.tensor([2, 0, 3, 1])
    permuted = update_rows(rows.lengths_R[order].tolist(), rows.group_R[order].tolist())
    assert aggregation.step_weights(permuted).tolist() == aggregation.step_weights(rows)[order].tolist()


@pytest.mark.parametrize(
    "aggregation", [PromptMean(), SequenceMeanTokenMean(), TokenMean()], ids=lambda each: each.name
)
def test_a_mean_of_equal_terms_is_the_term(aggregation: Aggregation) -> None:
    rows = update_rows()
    assert (aggregation.step_weights(rows) * rows.lengths_R).sum().item() == pytest.approx(1.0, rel=1e-14)
