"""How many requests start in a minute, and how many run at once."""

from __future__ import annotations

import asyncio
import time
from collections import deque


class Limits:
    """Lets at most ``starts`` requests start in any ``window`` seconds, and at most ``concurrent`` run at once.

    Belongs to one event loop.

    Args:
        starts: Requests that may start in a window; ``None`` for no limit.
        concurrent: Requests that may run at once.
        window: Length of the window in seconds.
    """

    def __init__(self, *, starts: int | None, concurrent: int, window: float = 60.0) -> None:
        self.starts, self.window = starts, window
        self.slots = asyncio.Semaphore(concurrent)
        """Held while a request runs."""
        self._turn = asyncio.Lock()
        self._started: deque[float] = deque()
        self._not_before = 0.0

    async def turn(self) -> None:
        """Wait until a request may start; called with a slot held."""
        async with self._turn:
            while (delay := self._delay()) > 0:
                await asyncio.sleep(delay)
            self._started.append(time.monotonic())

    def pause(self, seconds: float) -> None:
        """Let no request start for so long."""
        self._not_before = max(self._not_before, time.monotonic() + seconds)

    def paused(self) -> bool:
        """Whether a pause is on."""
        return self._not_before > time.monotonic()

    def _delay(self) -> float:
        now = time.monotonic()
        while self._started and (self.starts is None or self._started[0] <= now - self.window):
            self._started.popleft()
        delay = self._not_before - now
        if self.starts is not None and len(self._started) >= self.starts:
            delay = max(delay, self._started[0] + self.window - now)
        return delay
