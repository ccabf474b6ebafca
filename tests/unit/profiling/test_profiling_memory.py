"""Peaks of memory between two looks."""

from __future__ import annotations

import mmap
from pathlib import Path

import pytest
import torch

from grpo_lightning.profiling.memory import (
    CudaMemory,
    MemoryProbe,
    ResidentPeak,
    ResidentSamples,
    memory_probe,
)

BLOCK = 200_000_000
"""Bytes; far more than anything else that a test allocates meanwhile."""
needs_proc = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")


def fill() -> mmap.mmap:
    """Pages of the system's own, since an allocator may have kept some that are resident already."""
    block = mmap.mmap(-1, BLOCK)
    block[:: mmap.PAGESIZE] = bytes(len(range(0, BLOCK, mmap.PAGESIZE)))
    return block


@pytest.mark.skipif(not ResidentPeak.works(), reason="the kernel does not reset its mark")
def test_the_mark_tells_of_what_is_gone_and_then_forgets_it() -> None:
    probe = ResidentPeak()
    probe.start()
    try:
        before = probe.peak()
        fill().close()
        during = probe.peak()
        after = probe.peak()
    finally:
        probe.stop()
    assert during - before > 0.9 * BLOCK
    assert during - after > 0.9 * BLOCK


@needs_proc
def test_samples_tell_of_what_is_there_at_a_look() -> None:
    probe = ResidentSamples(every=1000.0)
    probe.start()
    try:
        before = probe.peak()
        block = fill()
        during = probe.peak()
        block.close()
        probe.peak()
        after = probe.peak()
    finally:
        probe.stop()
    assert during - before > 0.9 * BLOCK
    assert during - after > 0.9 * BLOCK


def test_nothing_is_measured_where_nothing_can_be() -> None:
    probe = MemoryProbe()
    probe.start()
    assert probe.peak() == 0
    probe.stop()
    assert probe.what == "not measured"


def test_the_best_probe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from grpo_lightning.profiling import memory

    cpu = torch.device("cpu")
    assert isinstance(memory_probe(torch.device("cuda")), CudaMemory)
    monkeypatch.setattr(ResidentPeak, "works", staticmethod(lambda: True))
    assert isinstance(memory_probe(cpu), ResidentPeak)
    monkeypatch.setattr(ResidentPeak, "works", staticmethod(lambda: False))
    monkeypatch.setattr(memory, "_PROCESS", tmp_path)
    assert type(memory_probe(cpu)) is MemoryProbe
    (tmp_path / "statm").write_text("1 2 3")
    assert isinstance(memory_probe(cpu), ResidentSamples)
