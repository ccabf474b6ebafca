"""The share of groups without signal that is to be expected."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

SEEN = ("group/reward_mean_p10", "group/reward_mean_p50", "group/reward_mean_p90")
"""Logged percentiles of the groups' mean rewards, which are pass rates where rewards are 0 or 1."""


def zero_signal(pass_rate: float, group_size: int) -> float:
    """``p^G + (1 - p)^G``: probability that all rewards of a group are equal.

    Args:
        pass_rate: ``p``, probability of reward 1; the others get 0.
        group_size: ``G``, rows of a group, drawn independently.

    Example:
        >>> zero_signal(0.5, 2), round(zero_signal(0.9, 8), 3)
        (0.5, 0.43)
    """
    if not 0 <= pass_rate <= 1:
        raise ValueError(f"a pass rate is between 0 and 1, not {pass_rate}")
    return float(pass_rate**group_size + (1 - pass_rate) ** group_size)


def pass_rates_seen(metrics: Path) -> list[float]:
    """The 10th, 50th and 90th percentile of the groups' mean rewards in the last rollout that a run has logged.

    Args:
        metrics: The run's ``metrics.csv``.

    Returns:
        Nothing if the file is not there or holds none, or values outside 0 to 1, which are no pass rates.
    """
    if not metrics.is_file():
        return []
    found: list[float] = []
    with metrics.open(newline="") as lines:
        for row in csv.DictReader(lines):
            values = [row.get(name) for name in SEEN]
            if all(values):
                found = [float(value) for value in values if value]
    return found if all(0 <= value <= 1 for value in found) else []


def signal_line(rates: Sequence[float], group_size: int) -> str:
    """The shares at some pass rates, as text."""
    return ", ".join(f"{zero_signal(rate, group_size):.1%} at {rate:.2f}" for rate in rates)
