"""What a call opens: files, connections, processes, threads."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import FrameType
from typing import Any

_WATCHED = {
    "open": "opened the file",
    "os.mkdir": "made the folder",
    "os.remove": "removed",
    "socket.connect": "connected to",
    "socket.bind": "listened on",
    "socket.getaddrinfo": "looked up",
    "subprocess.Popen": "started",
    "os.fork": "forked",
    "os.system": "ran",
    "os.posix_spawn": "started",
}
_LISTS: list[tuple[int, list[str]]] = []
"""Who watches, by thread, and where events go; the innermost watcher last."""


@contextmanager
def opened() -> Iterator[list[str]]:
    """What the body opens in this thread, in words; what imports open does not count.

    New threads are told at the end, if they still run.

    Example:
        >>> with opened() as events:
        ...     open("/dev/null").close()
        >>> events
        ["it opened the file '/dev/null'"]
    """
    _listen()
    events: list[str] = []
    before = set(threading.enumerate())
    watcher = (threading.get_ident(), events)
    _LISTS.append(watcher)
    try:
        yield events
    finally:
        _LISTS.remove(watcher)
        # Python tells of new threads from 3.12 on only.
        events += [f"it started the thread {each.name!r}" for each in threading.enumerate() if each not in before]


@cache
def _listen() -> None:
    # An audit hook stays for the life of the process; without a watcher it does nothing.
    sys.addaudithook(_heard)


def _heard(event: str, arguments: tuple[Any, ...]) -> None:
    if not _LISTS or event not in _WATCHED or _LISTS[-1][0] != threading.get_ident() or _importing(sys._getframe(1)):
        return
    what = next((each for each in arguments if isinstance(each, str | bytes | tuple)), "")
    _LISTS[-1][1].append(f"it {_WATCHED[event]}" + (f" {what!r}" if what else ""))


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        # linecache reads source lines for tracebacks, which torch makes when it is seeded.
        if str(frame.f_globals.get("__name__", "")).startswith(("importlib.", "linecache")):
            return True
        frame = frame.f_back
    return False
