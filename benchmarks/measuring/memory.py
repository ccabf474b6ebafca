"""Resident memory of this process, and its peak since a moment."""

from __future__ import annotations

import ctypes
import gc
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")


def resident() -> int:
    """Bytes that this process holds now."""
    return _status("VmRSS")


def peak() -> int:
    """Most bytes that this process has held since :func:`restart`."""
    return _status("VmHWM")


def restart() -> bool:
    """Let :func:`peak` count from now on; ``False`` where the kernel refuses, and the peak is that of the whole life."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def release() -> None:
    """Give freed memory back to the system, so that it is not counted again."""
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)


def _status(field: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"{_STATUS} has no {field}")
