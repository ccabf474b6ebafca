"""Rows that are written in any order."""

from __future__ import annotations

import torch

from grpo_lightning.engines.rows import RowWriter
from grpo_lightning.types import FinishReason


def ids(*numbers: int) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.int32)


def test_rows_are_laid_end_to_end() -> None:
    writer = RowWriter(3)
    writer.write(2, 9, -0.5, None)
    writer.write(0, 4, -1.0, ids(3, 4))
    writer.write(2, 8, -0.25, ids(8))
    writer.end(2, FinishReason.STOP)
    writer.write(1, 7, -2.0, None)
    completions = writer.finish()
    assert completions.tokens.tolist() == [[4], [7], [9, 8]]
    assert completions.log_probs.tolist() == [[-1.0], [-2.0], [-0.5, -0.25]]
    assert completions.finish_Q.tolist() == [FinishReason.LENGTH, FinishReason.LENGTH, FinishReason.STOP]
    assert completions.support is not None
    assert completions.support.tolist() == [[3, 4], [], [], [8]]


def test_no_support_at_all() -> None:
    writer = RowWriter(1)
    writer.write(0, 4, -1.0, None)
    completions = writer.finish()
    assert completions.support is None
    assert completions.log_probs.values.dtype == torch.float32
    assert completions.tokens.values.dtype == torch.int64


def test_no_rows() -> None:
    completions = RowWriter(0).finish()
    assert completions.tokens.tolist() == []
    assert completions.finish_Q.tolist() == []
