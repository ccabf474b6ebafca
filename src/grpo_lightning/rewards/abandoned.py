"""Threads that were left behind because a call hung in them."""

from __future__ import annotations

import logging
import threading

from grpo_lightning.errors import RewardError
from grpo_lightning.rewards.counts import Tally

log = logging.getLogger(__name__)

MOST = 8
_hung = threading.Event()


def note_hang() -> None:
    """A call was over its time in a thread of this process, and what it began may still be running there."""
    _hung.set()


def anything_hung() -> bool:
    """Whether a call was over its time in a thread of this process: Python could wait for it at its end, for ever."""
    return _hung.is_set()


class Abandoned:
    """Threads of one entry that were left behind; those that have ended since do not count.

    Args:
        name: Name of the reward.
        tally: Where they are counted.
    """

    def __init__(self, name: str, tally: Tally) -> None:
        self.name, self._tally = name, tally
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def add(self, thread: threading.Thread) -> None:
        """One more.

        Raises:
            RewardError: If too many still run.
        """
        self._tally.add("abandoned")
        with self._lock:
            self._threads = [each for each in self._threads if each.is_alive()] + [thread]
            running = len(self._threads)
        log.warning(
            "reward %r hangs: its thread is left behind (%d of %d); isolation: process would kill it",
            self.name,
            running,
            MOST,
        )
        if running > MOST:
            raise RewardError(
                f"reward {self.name!r} hangs: {running} threads of its calls were left behind and still run, more than "
                f"{MOST}; set its isolation to process, so that a call that hangs is killed"
            )
