"""An update with terms that can be added up by hand, for tests of aggregations."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from grpo_lightning.aggregations.base import Aggregation, UpdateRows

LENGTHS = [1, 3, 2, 4]
GROUPS = [7, 7, 9, 7]
TERMS = [[2.0], [1.0, 0.0, 5.0], [4.0, 4.0], [1.0, 1.0, 1.0, -1.0]]
"""Sums of rows: 2, 6, 8, 2."""


def update_rows(lengths: Sequence[int] = LENGTHS, groups: Sequence[int] = GROUPS) -> UpdateRows:
    """The rows of an update: four of 10 steps, one of them in a group of its own."""
    return UpdateRows(torch.tensor(lengths, dtype=torch.int64), torch.tensor(groups, dtype=torch.int64))


def aggregated(aggregation: Aggregation) -> float:
    """``sum_i w_i sum_t term_it`` of :data:`TERMS`."""
    weights: list[float] = aggregation.step_weights(update_rows()).tolist()
    return sum((weight * sum(terms) for weight, terms in zip(weights, TERMS, strict=True)), 0.0)
