"""Processes that do not outlive the one that started them."""

from __future__ import annotations

import functools
import os
import signal
import threading
import time

INTERVAL = 1.0
"""Seconds between two looks at the parent."""


@functools.cache
def end_with_parent() -> None:
    """Kill the process group of this process as soon as its parent is gone; watched from now on, once.

    A run that is killed cannot stop its server, nor can a server that is killed stop its workers: each would hold its memory
    for good.
    """
    threading.Thread(target=_watch, args=(os.getppid(),), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(INTERVAL)
    os.killpg(0, signal.SIGKILL)
