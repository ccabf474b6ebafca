"""Killing a process with everything that it started."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from pathlib import Path

_SET_PARENT_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends (Linux), so that none gets out of sight."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Be killed when the parent ends (Linux)."""
    _prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def kill_group(leader: int) -> None:
    """Kill the processes of a group; nothing happens where there is none."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def kill_descendants(group: int, seconds: float = 5.0) -> None:
    """Kill the group of a child, and all that descends from this process, until nothing is left or time is over.

    Descendants that made a session of their own are found where this process :func:`adopts <adopt_orphans>` them.
    """
    until = time.monotonic() + seconds
    while True:
        kill_group(group)
        found = descendants(os.getpid())
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        _reap()
        if not found or time.monotonic() > until:
            return
        time.sleep(0.005)


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def descendants(process: int) -> list[int]:
    """Ids of the living processes below ``process`` (Linux; elsewhere none)."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                children.setdefault(int(parent), []).append(int(path.parent.name))
    found, new = [], [process]
    while new:
        new = [child for pid in new for child in children.get(pid, [])]
        found += new
    return found
