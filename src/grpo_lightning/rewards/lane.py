"""Calls on their way: so many at once, each with its time, its retries and its cache."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Sequence
from typing import Protocol

from grpo_lightning.errors import RewardError
from grpo_lightning.rewards.cache import ScoreCache
from grpo_lightning.rewards.calls import Call
from grpo_lightning.rewards.composer import entry_name
from grpo_lightning.rewards.scores import InvalidScore, RowResult, within

log = logging.getLogger(__name__)


class Place(Protocol):
    """Where calls run."""

    def run(self, call: Call) -> list[RowResult]:
        """What the call gives each row; returns when the call's time is over."""

    def interrupt(self) -> None:
        """Let :meth:`run` return now, whatever it gives."""

    def close(self) -> None:
        """Give back what the place holds."""


class Lane:
    """Runs calls in the order in which they come, as many at once as it has places.

    A call that failed and has retries left comes back after its backoff; others run meanwhile.

    Args:
        places: Where calls run, for each one that runs at once; one place may stand there several times.
        caches: Caches of scores by file.
    """

    def __init__(self, places: Sequence[Place], caches: dict[str, ScoreCache]) -> None:
        self.places, self._caches = list(places), caches
        self._changed = threading.Condition()
        self._waiting: list[tuple[float, int, Call]] = []
        self._order = itertools.count()
        self._running: set[int] = set()
        self._drivers: list[threading.Thread] = []
        self._closed = False

    def put(self, call: Call) -> None:
        """One more call."""
        self._push(call, 0.0)
        with self._changed:
            # As many threads as there are calls at once, when there are.
            if len(self._waiting) + len(self._running) > len(self._drivers) < len(self.places):
                place = self.places[len(self._drivers)]
                self._drivers.append(threading.Thread(target=self._drive, args=(place,), name="rewards", daemon=True))
                self._drivers[-1].start()

    def close(self) -> None:
        """End all that runs and all that waits."""
        with self._changed:
            self._closed = True
            waiting, self._waiting = self._waiting, []
            self._changed.notify_all()
        for _, _, call in waiting:
            call.finish(RewardError("the rewards were closed"))
        for place in self.places:
            place.interrupt()
        for driver in self._drivers:
            driver.join(1.0)
        for place in self.places:
            place.close()

    def _push(self, call: Call, due: float) -> None:
        with self._changed:
            if self._closed:
                call.finish(RewardError("the rewards were closed"))
                return
            heapq.heappush(self._waiting, (due, next(self._order), call))
            self._changed.notify()

    def _next(self) -> Call | None:
        with self._changed:
            while not self._closed:
                left = self._waiting[0][0] - time.monotonic() if self._waiting else None
                if left is not None and left <= 0:
                    call = heapq.heappop(self._waiting)[2]
                    self._running.add(id(call))
                    return call
                self._changed.wait(left)
            return None

    def _drive(self, place: Place) -> None:
        while (call := self._next()) is not None:
            try:
                again = attempt(call, place, self._caches)
            except BaseException as error:  # whatever it is, who waits for the call must hear of it
                call.finish(error)
            else:
                if self._closed:
                    call.finish(RewardError("the rewards were closed"))
                elif again is None:
                    call.finish()
                else:
                    self._push(call, time.monotonic() + again)
            with self._changed:
                self._running.discard(id(call))


def attempt(call: Call, place: Place, caches: dict[str, ScoreCache]) -> float | None:
    """Run a call once, unless its scores are known already; the seconds after which to try again, or ``None``.

    Raises:
        ConfigError: If the reward raises it.
        RewardError: If too many of its calls hang.
    """
    entry = call.entry
    cache = caches.get(entry.cache or "")
    with call.tally.running():
        if cache is not None and call.key is not None and call.attempts == 0:
            known = cache.get(call.key, call.turns)
            if known is not None:
                call.results = [within(each, entry.range) for each in known]
                call.tally.add("cache_hits", len(known))
                return None
        call.attempts += 1
        results = place.run(call)
        call.results = [within(each, entry.range) for each in results]
    failed = [each for each in call.results if isinstance(each, InvalidScore)]
    if not failed:
        if cache is not None and call.key is not None:
            cache.put(call.key, call.results)
        return None
    if call.attempts > entry.retries:
        return None
    call.tally.add("retries")
    log.info("reward %r %s; attempt %d of %d", entry_name(entry), failed[0], call.attempts + 1, entry.retries + 1)
    return float(entry.backoff) * 2.0 ** (call.attempts - 1)
