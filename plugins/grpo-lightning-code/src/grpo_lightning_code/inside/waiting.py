"""Waiting for a candidate's process."""

from __future__ import annotations

import os
import signal
import time


def wait_for(child: int, seconds: float | None = None) -> tuple[int, float, bool]:
    """Wait for a process, collecting every other one that ends meanwhile.

    Args:
        child: Its id.
        seconds: How long at most; then it is killed.

    Returns:
        Its exit code (minus the signal that ended it), its CPU seconds, and whether it had to be killed here.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    killed = False
    while True:
        ended, status, usage = os.wait4(-1, 0 if deadline is None or killed else os.WNOHANG)
        if ended == child:
            return os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, killed
        if ended == 0 and deadline is not None:
            if time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
                killed = True
            time.sleep(0.002)
