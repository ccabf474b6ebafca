"""Completions collected row by row."""

from __future__ import annotations

import torch
from torch import Tensor

from grpo_lightning.engines.base import Completions, RowEnd
from grpo_lightning.types import FinishReason, Ragged


class RowWriter:
    """Takes tokens row by row, in any order of rows, and lays them end to end when all rows have ended.

    Args:
        rows: Number of rows.
    """

    def __init__(self, rows: int) -> None:
        self.tokens: list[list[int]] = [[] for _ in range(rows)]
        self._log_probs: list[list[float]] = [[] for _ in range(rows)]
        self._supports: list[list[Tensor]] = [[] for _ in range(rows)]
        self._finish: list[FinishReason] = [FinishReason.LENGTH] * rows
        self._restricted = False

    def write(self, row: int, token: int, log_prob: float, support: Tensor | None) -> None:
        """One more token of ``row``."""
        self.tokens[row].append(token)
        self._log_probs[row].append(log_prob)
        self._supports[row].append(torch.zeros(0, dtype=torch.int32) if support is None else support)
        self._restricted = self._restricted or support is not None

    def end(self, row: int, finish: FinishReason) -> None:
        """``row`` has ended."""
        self._finish[row] = finish

    def ended(self, row: int) -> RowEnd:
        """A row that has ended, as it will be in the completions."""
        log_probs = torch.tensor(self._log_probs[row], dtype=torch.float32).tolist()
        return RowEnd(row, list(self.tokens[row]), log_probs, int(self._finish[row]))

    def finish(self) -> Completions:
        """All rows."""
        supports = [support for row in self._supports for support in row]
        return Completions(
            tokens=Ragged.from_list(self.tokens, torch.int64),
            log_probs=Ragged.from_list(self._log_probs, torch.float32),
            finish_Q=torch.tensor([int(finish) for finish in self._finish], dtype=torch.int64),
            support=Ragged.from_list(supports, torch.int32) if self._restricted else None,
        )
