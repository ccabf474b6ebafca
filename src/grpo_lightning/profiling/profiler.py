"""Time, memory and counts by phase, of the thread that trains."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from grpo_lightning.profiling.memory import MemoryProbe
from grpo_lightning.profiling.phases import BACKWARD, FORWARD, REST, WHOLE


@dataclass
class PhaseRecord:
    """What one phase came to on one rank."""

    calls: int = 0
    seconds: float = 0.0
    """Without the phases inside it."""
    positions: int = 0
    """What ran through the model, padding included."""
    tokens: int = 0
    """Positions that hold a token."""
    duplicated: int = 0
    """Tokens of prompts that ran more than once, all but the first time."""
    silent: int = 0
    """Tokens of rows of advantage 0 that ran all the same."""
    operations: int = 0
    """Floating point operations, those of ``recomputed`` left out."""
    recomputed: int = 0
    """Floating point operations that were done before, and their results not kept."""
    peak_memory: int = 0
    """Bytes; 0 where nothing measures."""


class Profiler:
    """Divides the time between :meth:`start` and :meth:`stop` among phases: every moment belongs to the innermost open one.

    Args:
        clock: Seconds.
        memory: Measures peaks.
        wait: Called before the clock is read: waits for what a device still computes.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.perf_counter,
        memory: MemoryProbe | None = None,
        wait: Callable[[], None] | None = None,
    ) -> None:
        self.memory = memory or MemoryProbe()
        self._clock, self._wait = clock, wait
        self.records: dict[str, PhaseRecord] = {REST: PhaseRecord(calls=1)}
        self.thread = 0
        self._open: list[str] = []
        self._last = 0.0
        self._due = PhaseRecord()
        """What the next backward pass is owed."""

    @property
    def seconds(self) -> float:
        """The whole time, which is the sum of the phases'."""
        return sum(record.seconds for record in self.records.values())

    def start(self) -> None:
        """From here on, in this thread."""
        self.thread = threading.get_ident()
        self.memory.start()
        self._last = self._clock()

    def stop(self) -> None:
        """Close every phase and measure no more."""
        self._settle()
        self._open.clear()
        self.memory.stop()

    @property
    def closed(self) -> bool:
        """Whether the innermost open phase takes in whatever happens inside it."""
        return bool(self._open) and self._open[-1] in WHOLE

    def begin(self, name: str) -> None:
        """Open a phase; inside one that takes everything in, nothing happens."""
        if self.closed:
            return
        self._settle()
        self._open.append(name)
        self.records.setdefault(name, PhaseRecord()).calls += 1

    def end(self, name: str) -> None:
        """Close a phase and all that were opened inside it; nothing happens if it is not open."""
        if name not in self._open:
            return
        self._settle()
        while self._open.pop() != name:
            pass
        if name == BACKWARD:
            self._pay(self.records[name])

    def count(
        self,
        *,
        positions: int = 0,
        tokens: int = 0,
        duplicated: int = 0,
        silent: int = 0,
        operations: int = 0,
        backward: int = 0,
        recomputed: int = 0,
    ) -> None:
        """Add to the innermost open phase. With gradient, the next backward pass is owed ``backward`` and ``recomputed``."""
        name = self._open[-1] if self._open else REST
        if name == BACKWARD:
            return  # layers that run again have said so when they ran first
        added = PhaseRecord(positions=positions, tokens=tokens, duplicated=duplicated, silent=silent)
        record = self.records[name]
        _add(record, added)
        record.operations += operations
        if torch.is_grad_enabled() and name not in WHOLE:
            self._due.operations += backward
            self._due.recomputed += recomputed
            if name == FORWARD:
                _add(self._due, added)

    def _pay(self, record: PhaseRecord) -> None:
        _add(record, self._due)
        record.operations += self._due.operations
        record.recomputed += self._due.recomputed
        self._due = PhaseRecord()

    def _settle(self) -> None:
        """The time and the peak since the last change belong to the phase that was open."""
        if self._wait is not None:
            self._wait()
        now = self._clock()
        record = self.records[self._open[-1] if self._open else REST]
        record.seconds += now - self._last
        record.peak_memory = max(record.peak_memory, self.memory.peak())
        self._last = now


def _add(record: PhaseRecord, added: PhaseRecord) -> None:
    record.positions += added.positions
    record.tokens += added.tokens
    record.duplicated += added.duplicated
    record.silent += added.silent
