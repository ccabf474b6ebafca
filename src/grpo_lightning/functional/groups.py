"""Statistics inside groups of rows, in float64."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Groups:
    """Which row belongs to which group, groups numbered densely from 0."""

    index_R: Tensor
    """[R] int64: dense index of the row's group."""
    sizes_G: Tensor
    """[G] int64: rows of each group."""

    @classmethod
    def of(cls, ids_R: Tensor) -> Groups:
        """Groups of rows that carry equal ids, in ascending order of id."""
        _, index_R, sizes_G = torch.unique(ids_R, return_inverse=True, return_counts=True)
        return cls(index_R, sizes_G)

    def __len__(self) -> int:
        return self.sizes_G.shape[0]

    def sum(self, values_R: Tensor) -> Tensor:
        """[G]: sum of each group's values."""
        return torch.zeros(len(self), dtype=values_R.dtype).index_add_(0, self.index_R, values_R)

    def mean(self, values_R: Tensor) -> Tensor:
        """[G]: mean of each group's values."""
        return self.sum(values_R) / self.sizes_G

    def max(self, values_R: Tensor) -> Tensor:
        """[G]: largest value of each group."""
        empty = torch.full((len(self),), -torch.inf, dtype=values_R.dtype)
        return empty.scatter_reduce(0, self.index_R, values_R, "amax")

    def min(self, values_R: Tensor) -> Tensor:
        """[G]: smallest value of each group."""
        return -self.max(-values_R)

    def centered(self, values_R: Tensor) -> Tensor:
        """[R]: values minus their group's mean."""
        # Measured from the group's smallest value: what is lost to rounding is a part of the spread, however far the
        # values lie from 0.
        above_R = values_R - self.min(values_R)[self.index_R]
        return above_R - self.mean(above_R)[self.index_R]

    def std(self, values_R: Tensor, ddof: int) -> Tensor:
        """[G]: ``sqrt(sum (x - mean)^2 / (size - ddof))``; 0 where ``size <= ddof``."""
        squares = self.sum(self.centered(values_R) ** 2)
        return (squares / (self.sizes_G - ddof).clamp(min=1)).sqrt() * (self.sizes_G > ddof)

    def tolerance(self, values_R: Tensor, epsilon: float, sizes_R: Tensor | None = None) -> Tensor:
        """[G]: ``4 epsilon max size``, the difference up to which two values of a group count as equal.

        Args:
            values_R: [R] values.
            epsilon: Machine epsilon.
            sizes_R: [R] what rounding of a value is relative to; by default ``|x|``.
        """
        return 4 * epsilon * self.max(values_R.abs() if sizes_R is None else sizes_R)

    def unanimous(self, values_R: Tensor, epsilon: float, sizes_R: Tensor | None = None) -> Tensor:
        """[G] bool: groups whose values are all equal within :meth:`tolerance`."""
        return self.max(values_R) - self.min(values_R) <= self.tolerance(values_R, epsilon, sizes_R)
