"""Memory that tensors gave back stays with the process, for the next ones."""

from __future__ import annotations

import ctypes
import os
import sys

SETTINGS = {
    "MALLOC_MMAP_MAX_": (-4, 0),
    "MALLOC_TRIM_THRESHOLD_": (-1, 2**31 - 1),
    "MALLOC_TOP_PAD_": (-2, 64 * 2**20),
}
"""Number of glibc's ``mallopt`` and value, by the environment variable that says the same when a process starts."""
VARIABLES = (*SETTINGS, "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")
"""Environment variables by which a user decides this otherwise."""


def keep_freed_memory() -> bool:
    """Let glibc's ``malloc`` keep what is freed instead of handing it back to the system.

    Every pass asks for the same hundreds of megabytes again. By default glibc maps and unmaps each large block, and the system
    clears every page of it anew, which costs more than much of the arithmetic. The price is that the process holds the most
    that it ever needed until it ends, so this is for training on the CPU, where that memory is the training's own.

    Returns:
        Whether it was done: not where the C library is not glibc, nor where one of :data:`VARIABLES` is set.
    """
    if sys.platform != "linux" or any(name in os.environ for name in VARIABLES):
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    return all(library.mallopt(number, value) == 1 for number, value in SETTINGS.values())
