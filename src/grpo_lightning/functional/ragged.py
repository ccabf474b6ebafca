"""Sequences of different lengths without padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Ragged:
    """Sequences of different lengths, laid end to end.

    Sequence ``i`` is ``values[offsets[i]:offsets[i + 1]]``.
    """

    values: Tensor
    """[sum of lengths, ...]."""
    offsets: Tensor
    """[number of sequences + 1], int64, starting at 0."""

    @classmethod
    def from_list(cls, sequences: Sequence[Tensor | Sequence[int] | Sequence[float]], dtype: torch.dtype) -> Self:
        """Lay ``sequences`` end to end."""
        tensors = [torch.as_tensor(sequence, dtype=dtype) for sequence in sequences]
        lengths = torch.tensor([tensor.shape[0] for tensor in tensors], dtype=torch.int64)
        values = torch.cat(tensors) if tensors else torch.zeros(0, dtype=dtype)
        return cls(values, offsets_from_lengths(lengths))

    def __len__(self) -> int:
        return self.offsets.shape[0] - 1

    def __getitem__(self, index: int) -> Tensor:
        start, end = self.offsets[index : index + 2].tolist()
        return self.values[start:end]

    def lengths(self) -> Tensor:
        """[number of sequences], int64."""
        return self.offsets.diff()

    def positions(self, indices: Tensor) -> Tensor:
        """Positions in ``values`` of the sequences ``indices``, in that order."""
        lengths = self.lengths()[indices]
        starts = self.offsets[indices]
        local = torch.arange(int(lengths.sum())) - torch.repeat_interleave(offsets_from_lengths(lengths)[:-1], lengths)
        return torch.repeat_interleave(starts, lengths) + local

    def select(self, indices: Tensor) -> Ragged:
        """The sequences ``indices``, in that order."""
        return Ragged(self.values[self.positions(indices)], offsets_from_lengths(self.lengths()[indices]))

    @staticmethod
    def cat(parts: Sequence[Ragged]) -> Ragged:
        """The sequences of all ``parts``, in order."""
        lengths = torch.cat([part.lengths() for part in parts])
        return Ragged(torch.cat([part.values for part in parts]), offsets_from_lengths(lengths))

    def tolist(self) -> list[list[Any]]:
        """The sequences as Python lists."""
        flat, offsets = self.values.tolist(), self.offsets.tolist()
        return [flat[start:end] for start, end in pairwise(offsets)]


def offsets_from_lengths(lengths: Tensor) -> Tensor:
    """[n] lengths to [n + 1] offsets, int64."""
    return torch.cat([torch.zeros(1, dtype=torch.int64), lengths.to(torch.int64).cumsum(0)])
