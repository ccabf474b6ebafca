"""Alternating measurements: what is compared is measured side by side, and never one after the other."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

Measure = Callable[[int], dict[str, Any]]
"""Measures once, told the number of the round (0 for the warm-up), and returns at least ``seconds``."""


@dataclass(frozen=True)
class Spread:
    """A median and how far single values are from it."""

    median: float
    low: float
    high: float
    count: int

    def as_dict(self) -> dict[str, float]:
        """Plain numbers, for a result file."""
        return asdict(self)


def spread(values: Sequence[float]) -> Spread:
    """Median, least and greatest of ``values``."""
    if not values:
        raise ValueError("there is no value to take a median of")
    return Spread(float(statistics.median(values)), float(min(values)), float(max(values)), len(values))


def order_of(names: Sequence[str], round_: int) -> list[str]:
    """Who is measured first changes from round to round, so that nobody always follows the same."""
    shift = round_ % len(names)
    return [*names[shift:], *names[:shift]]


def alternate(
    sides: Mapping[str, Measure], rounds: int, *, warm_up: bool = True, say: Callable[[str], None] = print
) -> dict[str, list[dict[str, Any]]]:
    """Measure every side once a round, in turning order.

    Args:
        sides: What is compared, by name.
        rounds: Rounds that count.
        warm_up: Whether a round before them is left out.
        say: Told of each measurement.

    Returns:
        By name, one measurement a round.
    """
    kept: dict[str, list[dict[str, Any]]] = {name: [] for name in sides}
    for round_ in range(0 if warm_up else 1, rounds + 1):
        for name in order_of(list(sides), round_):
            measured = sides[name](round_)
            say(f"  {'warm-up' if round_ == 0 else f'round {round_}'}: {name} {measured['seconds']:.3f} s")
            if round_:
                kept[name].append(measured)
    return kept


def summary(measured: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Spread of every number that all measurements of a side have."""
    names = [name for name, value in measured[0].items() if isinstance(value, int | float)]
    return {
        name: spread([float(each[name]) for each in measured]).as_dict()
        for name in names
        if all(name in each for each in measured)
    }


def ratio(
    slow: Sequence[Mapping[str, Any]], fast: Sequence[Mapping[str, Any]], name: str = "seconds"
) -> dict[str, float]:
    """Spread of ``slow / fast``, taken round by round: what disturbs both sides of a round cancels."""
    return spread([float(a[name]) / float(b[name]) for a, b in zip(slow, fast, strict=True)]).as_dict()
