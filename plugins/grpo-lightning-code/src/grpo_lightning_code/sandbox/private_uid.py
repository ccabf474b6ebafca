"""A user id of its own for every sandbox, so that a limit on a user's processes is a limit on one sandbox."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager

FIRST, LAST = 60706, 61183
"""Ids that systemd's list of ranges keeps free of every use."""


@contextmanager
def private_uid() -> Iterator[int | None]:
    """An id that no other sandbox of this machine has meanwhile; ``None`` where this process is not root.

    The lock is the name of an abstract Unix socket: it goes away with the process that holds it, and leaves no file.

    Raises:
        OSError: If all ids are taken.
    """
    if os.geteuid() != 0:
        yield None
        return
    count = LAST - FIRST + 1
    start = random.SystemRandom().randrange(count)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as lock:
        for offset in range(count):
            uid = FIRST + (start + offset) % count
            try:
                lock.bind(f"\0grpo-lightning-code/{uid}")
            except OSError:
                continue
            yield uid
            return
        raise OSError(f"all {count} user ids of sandboxes are in use")
