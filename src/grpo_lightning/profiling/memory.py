"""Peaks of memory between two looks."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path
from typing import ClassVar

import torch
from typing_extensions import override

_PROCESS = Path("/proc/self")


class MemoryProbe:
    """Measures the highest memory between two calls of :meth:`peak`; this one measures nothing."""

    what: ClassVar[str] = "not measured"
    """What is measured, in words."""

    def start(self) -> None:
        """Begin to measure."""

    def stop(self) -> None:
        """Measure no more."""

    def peak(self) -> int:
        """Bytes: the highest since the last call, which begins anew; 0 where nothing is measured."""
        return 0


class CudaMemory(MemoryProbe):
    """``torch.cuda.max_memory_allocated``, reset at every look.

    Args:
        device: The device.
    """

    what = "allocated on the device (torch.cuda.max_memory_allocated)"

    def __init__(self, device: torch.device) -> None:
        self.device = device

    @override
    def start(self) -> None:
        torch.cuda.reset_peak_memory_stats(self.device)

    @override
    def peak(self) -> int:
        highest = torch.cuda.max_memory_allocated(self.device)
        torch.cuda.reset_peak_memory_stats(self.device)
        return int(highest)


class ResidentPeak(MemoryProbe):
    """The kernel's own high-water mark of resident memory, ``VmHWM``, reset at every look through ``clear_refs``."""

    what = "resident memory of the process, all threads (VmHWM)"

    @override
    def start(self) -> None:
        self._status = os.open(_PROCESS / "status", os.O_RDONLY)
        self._reset = os.open(_PROCESS / "clear_refs", os.O_WRONLY)
        self.peak()

    @override
    def stop(self) -> None:
        os.close(self._status)
        os.close(self._reset)

    @override
    def peak(self) -> int:
        found = re.search(rb"VmHWM:\s*(\d+) kB", os.pread(self._status, 8192, 0))
        os.pwrite(self._reset, b"5", 0)
        return int(found[1]) * 1024 if found else 0

    @staticmethod
    def works() -> bool:
        """Whether the kernel tells and resets the mark."""
        try:
            (_PROCESS / "clear_refs").write_text("5")
            return "VmHWM:" in (_PROCESS / "status").read_text()
        except OSError:
            return False


class ResidentSamples(MemoryProbe):
    """Resident memory, read every ``every`` seconds and at every look: peaks between two readings are missed.

    Args:
        every: Seconds between two readings.
    """

    what = "resident memory of the process, all threads (sampled every 10 ms)"

    def __init__(self, every: float = 0.01) -> None:
        self.every, self._highest, self._over = every, 0, threading.Event()

    @override
    def start(self) -> None:
        self._over.clear()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    @override
    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    @override
    def peak(self) -> int:
        now = self._now()
        highest, self._highest = max(self._highest, now), now
        return highest

    def _sample(self) -> None:
        while not self._over.wait(self.every):
            self._highest = max(self._highest, self._now())

    @staticmethod
    def _now() -> int:
        return int((_PROCESS / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def memory_probe(device: torch.device) -> MemoryProbe:
    """The best probe there is for ``device``."""
    if device.type == "cuda":
        return CudaMemory(device)
    if ResidentPeak.works():
        return ResidentPeak()
    return ResidentSamples() if (_PROCESS / "statm").exists() else MemoryProbe()
