"""Ending a call that takes too long."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from grpo_lightning.testing.check import Nonconformity


@contextmanager
def time_limit(seconds: float, must: str, mend: str) -> Iterator[None]:
    """Raise :class:`~grpo_lightning.testing.check.Nonconformity` in a body that takes longer, where it can be interrupted.

    That is in the main thread of a system with alarms; a regular expression in a loop can be. Elsewhere nothing ends it.

    Args:
        seconds: How long it may take.
        must: What must hold, for the message.
        mend: How to mend it.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def ended(number: int, frame: FrameType | None) -> None:
        raise Nonconformity(f"{must}. Found: it took more than {seconds:g} seconds. To mend it: {mend}.")

    handler = signal.signal(signal.SIGALRM, ended)
    left = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *left)
        signal.signal(signal.SIGALRM, handler)
