"""What the calls of a reward came to, in numbers."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

RewardCounts = dict[str, dict[str, float]]
"""By reward: ``failures`` (rows), ``failures/<kind>`` (rows), ``retries`` (further attempts of calls), ``cache_hits`` (rows),
``abandoned`` (threads left behind), ``groups_dropped``, and ``seconds`` (time in which a call of it was running)."""


class Tally:
    """Counts of one reward. A key that has occurred once stays, as 0, so that a run's columns do not come and go."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, float] = {"failures": 0.0, "seconds": 0.0}
        self._running = 0
        self._since = 0.0

    def add(self, key: str, count: float = 1.0) -> None:
        """Count something."""
        with self._lock:
            self._counts[key] = self._counts.get(key, 0.0) + count

    @contextmanager
    def running(self) -> Iterator[None]:
        """A call is running; calls that overlap count their time once."""
        with self._lock:
            self._since = time.perf_counter() if self._running == 0 else self._since
            self._running += 1
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1
                if self._running == 0:
                    self._counts["seconds"] += time.perf_counter() - self._since

    def take(self) -> dict[str, float]:
        """The counts since the last time."""
        with self._lock:
            taken = dict(self._counts)
            self._counts = dict.fromkeys(self._counts, 0.0)
            return taken


def add_counts(total: RewardCounts, more: Mapping[str, Mapping[str, float]]) -> None:
    """Add ``more`` to ``total``."""
    for name, counts in more.items():
        own = total.setdefault(name, {})
        for key, count in counts.items():
            own[key] = own.get(key, 0.0) + count


def counts_of_ranks(ranks: Sequence[Mapping[str, Mapping[str, float]]]) -> RewardCounts:
    """Sums over ranks; of ``seconds`` the largest."""
    total: RewardCounts = {}
    for each in ranks:
        add_counts(total, each)
    for name, counts in total.items():
        if "seconds" in counts:
            counts["seconds"] = max(each[name]["seconds"] for each in ranks if name in each)
    return total
