"""Rewards of a table as fractions, by group, and comparing with what they give: for references without rounding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from torch import Tensor

from grpo_lightning.types import RolloutTable

ROUND = 2.0**-53
"""Largest relative error of one float64 operation."""


@dataclass
class ExactGroup:
    """Valid rows of one group."""

    rows: list[int]
    """Their places in the table."""
    rewards: list[Fraction]
    lengths: list[int]

    @property
    def size(self) -> int:
        return len(self.rows)

    @property
    def mean(self) -> Fraction:
        return sum(self.rewards, Fraction(0)) / self.size

    @property
    def spread(self) -> Fraction:
        return max(self.rewards) - min(self.rewards)


def exact_groups(table: RolloutTable) -> list[ExactGroup]:
    """Groups of the rows that have a reward and a step, in order of their ordinal."""
    groups: dict[int, ExactGroup] = {}
    for row, (group, reward, length) in enumerate(
        zip(table.group_R.tolist(), table.rewards_R.tolist(), table.lengths_R.tolist(), strict=True)
    ):
        if math.isnan(reward) or length == 0:
            continue
        mine = groups.setdefault(group, ExactGroup([], [], []))
        mine.rows.append(row)
        mine.rewards.append(Fraction(reward))
        mine.lengths.append(length)
    return [groups[group] for group in sorted(groups)]


def tie_width(rewards: Sequence[Fraction], epsilon: float) -> Fraction:
    """The difference up to which two rewards of a group are equal."""
    return 4 * Fraction(epsilon) * max(abs(reward) for reward in rewards)


def says_nothing(rewards: Sequence[Fraction], epsilon: float) -> bool:
    """Whether a group is one row, or rows that are all equal."""
    return len(rewards) < 2 or max(rewards) - min(rewards) <= tie_width(rewards, epsilon)


def root(value: Fraction) -> float:
    """Square root of a fraction, to float64's precision however small the fraction."""
    return math.sqrt(value) if value > 1e-200 else math.sqrt(value * 2**600) * 2.0**-300


def expect_near(found: Tensor, wanted: Sequence[float | Fraction], bounds: Sequence[float | Fraction]) -> None:
    """Each value within its bound of what is wanted; where the bound is 0, exactly so."""
    values = found.tolist()
    assert len(values) == len(wanted) == len(bounds)
    for row, (value, want, bound) in enumerate(zip(values, wanted, bounds, strict=True)):
        assert math.isfinite(value)
        assert abs(Fraction(value) - Fraction(want)) <= Fraction(bound), (
            f"row {row}: {value} instead of {float(want)}, off by {value - float(want):.3g}, allowed {float(bound):.3g}"
        )


def centering_error(size: int, spread: float | Fraction) -> float:
    """What rounding does to ``x - mean`` of ``size`` values ``spread`` apart, measured from the smallest of them.

    A difference from the smallest is off by a rounding of the spread, their mean by one for each addition and one for the
    division, the last subtraction by one more.
    """
    return (size + 4) * ROUND * float(spread)


def deviation_error(error: float, size: int, std: float) -> float:
    """What it does to a standard deviation of ``size`` deviations that are each off by ``error``.

    Their norm is off by no more than ``sqrt(size) error``, and ``sqrt(size / (size - 1)) < 1.5``; squares, sum, quotient and
    root add at most ``size / 2 + 3`` roundings.
    """
    return 1.5 * error + (size + 4) * ROUND * std


def quotient_error(error: float, value: float, divisor: float, divisor_error: float) -> float:
    """What ``value = x / divisor`` is off by if ``x`` and ``divisor`` are off by ``error`` and ``divisor_error``."""
    if divisor_error >= divisor:
        return 1e300
    return 1.01 * (error + abs(value) * divisor_error) / (divisor - divisor_error) + 3 * ROUND * abs(value)
