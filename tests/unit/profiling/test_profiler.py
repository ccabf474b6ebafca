"""Time, memory and counts by phase, with a clock that is set by hand."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch

from grpo_lightning import profiling
from grpo_lightning.profiling import Profiler
from grpo_lightning.profiling.memory import MemoryProbe
from grpo_lightning.profiling.phases import PHASES, WHOLE


class Clock:
    """Seconds, moved by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Memory(MemoryProbe):
    """Peaks that are said beforehand."""

    def __init__(self, *peaks: int) -> None:
        self.peaks = list(peaks)
        self.running = False

    def start(self) -> None:
        self.running = True

    def stop(self) -> None:
        self.running = False

    def peak(self) -> int:
        return self.peaks.pop(0)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def profiler(clock: Clock) -> Iterator[Profiler]:
    profiler = Profiler(clock)
    profiling.start(profiler)
    yield profiler
    profiling.stop()


def seconds(profiler: Profiler) -> dict[str, float]:
    return {name: record.seconds for name, record in profiler.records.items()}


def test_a_phase_takes_its_time_from_the_one_around_it(profiler: Profiler, clock: Clock) -> None:
    clock.now += 1
    with profiling.phase("credit"):
        clock.now += 2
        with profiling.phase("generate"):
            clock.now += 4
            with profiling.phase("decode"):
                clock.now += 8
            clock.now += 16
        clock.now += 32
    clock.now += 64
    profiling.stop()
    assert seconds(profiler) == {"rest": 65, "credit": 34, "generate": 20, "decode": 8}
    assert profiler.seconds == clock.now - 100


def test_calls(profiler: Profiler) -> None:
    for _ in range(3):
        with profiling.phase("forward"), profiling.phase("head"):
            pass
    assert {name: record.calls for name, record in profiler.records.items()} == {"rest": 1, "forward": 3, "head": 3}


def test_a_whole_phase_takes_in_what_is_inside(profiler: Profiler, clock: Clock) -> None:
    with profiling.phase("evaluation"):
        with profiling.phase("decode"):
            clock.now += 1
            profiling.count(tokens=5)
        profiling.begin("backward")
        clock.now += 2
        profiling.end("backward")
        clock.now += 4
    assert seconds(profiler) == {"rest": 0, "evaluation": 7}
    assert profiler.records["evaluation"].tokens == 5


def test_begin_and_end(profiler: Profiler, clock: Clock) -> None:
    profiling.begin("optimizer")
    clock.now += 1
    profiling.begin("generate")  # left open: the end of the one around it ends it
    clock.now += 2
    profiling.end("optimizer")
    clock.now += 4
    profiling.end("optimizer")
    clock.now += 8
    profiling.stop()
    assert seconds(profiler) == {"rest": 12, "optimizer": 1, "generate": 2}


def test_an_error_closes_what_was_open(profiler: Profiler, clock: Clock) -> None:
    @profiling.during("forward")
    def fails() -> None:
        profiling.begin("optimizer")
        clock.now += 1
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    clock.now += 2
    profiling.stop()
    assert seconds(profiler) == {"rest": 2, "forward": 0, "optimizer": 1}


def test_during(profiler: Profiler, clock: Clock) -> None:
    @profiling.during("credit")
    def work(a: int, *, b: int) -> int:
        """Adds."""
        clock.now += 3
        return a + b

    assert work(1, b=2) == 3
    assert work.__doc__ == "Adds."
    assert seconds(profiler) == {"rest": 0, "credit": 3}


def test_other_threads_are_not_seen(profiler: Profiler, clock: Clock) -> None:
    seen = []

    def elsewhere() -> None:
        seen.append(profiling.active())
        with profiling.phase("forward"):
            profiling.begin("reward")
            profiling.count(tokens=1)
            profiling.end("reward")

    with profiling.phase("reward"):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        clock.now += 1
        assert profiling.active()
    assert seen == [False]
    assert seconds(profiler) == {"rest": 0, "reward": 1}
    assert profiler.records["reward"].tokens == 0


def test_without_a_profiler_nothing_happens() -> None:
    assert not profiling.active()
    with profiling.phase("forward"):
        profiling.begin("optimizer")
        profiling.count(tokens=1, operations=2)
        profiling.end("optimizer")
    assert profiling.phase("forward") is profiling.phase("decode"), "nothing is made"
    sums: dict[str, float] = {}
    with profiling.timed(sums, "generate", "generate"):
        pass
    assert sums["generate"] > 0


def test_timed_counts_what_is_inside(profiler: Profiler) -> None:
    sums: dict[str, float] = {}
    for _ in range(2):
        with profiling.timed(sums, "score"), profiling.phase("old_log_probs"):
            pass
    with profiling.timed(sums, "generate", "generate"):
        pass
    assert {name: record.calls for name, record in profiler.records.items()} == {
        "rest": 1, "old_log_probs": 2, "generate": 1,
    }  # fmt: skip
    assert sums.keys() == {"score", "generate"}


def test_backward_is_owed_what_the_training_forward_ran(profiler: Profiler) -> None:
    with profiling.phase("old_log_probs"), torch.no_grad():
        profiling.count(positions=100, tokens=100, operations=1000, backward=2000)
    with profiling.phase("forward"):
        profiling.count(silent=3)
        profiling.count(positions=10, tokens=9, duplicated=2, operations=50, backward=70, recomputed=50)
        with profiling.phase("head"):
            profiling.count(operations=5, backward=10, recomputed=5)
        with torch.no_grad():
            profiling.count(positions=1, tokens=1, operations=7, backward=14)
    with profiling.phase("backward"):
        profiling.count(operations=50, backward=70)  # layers that run again
    with profiling.phase("backward"):
        pass
    records = profiler.records
    assert (records["forward"].operations, records["head"].operations) == (57, 5)
    backward = records["backward"]
    assert (backward.positions, backward.tokens, backward.duplicated, backward.silent) == (10, 9, 2, 3)
    assert (backward.operations, backward.recomputed) == (80, 55)
    assert records["old_log_probs"].operations == 1000


def test_peaks_belong_to_the_phase_they_fall_in(clock: Clock) -> None:
    memory = Memory(7, 90, 30, 40, 5)
    profiler = Profiler(clock, memory)
    profiler.start()
    assert memory.running
    profiler.begin("forward")  # 7: before it
    profiler.begin("head")  # 90: forward, so far
    profiler.end("head")  # 30
    profiler.end("forward")  # 40: less than before
    profiler.stop()  # 5
    assert not memory.running
    peaks = {name: record.peak_memory for name, record in profiler.records.items()}
    assert peaks == {"rest": 7, "forward": 90, "head": 30}


def test_a_device_is_waited_for_before_the_clock_is_read(clock: Clock) -> None:
    def wait() -> None:
        clock.now += 1  # what was still to compute

    profiler = Profiler(clock, wait=wait)
    profiler.start()
    profiler.begin("forward")
    profiler.end("forward")
    assert seconds(profiler) == {"rest": 1, "forward": 1}


def test_every_phase_that_takes_all_in_is_a_phase() -> None:
    assert PHASES.keys() > WHOLE
    assert list(PHASES)[-1] == "rest"
