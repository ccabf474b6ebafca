from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pytest

from grpo_lightning.rewards import wire


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    for end in ends:
        os.set_blocking(end, False)
    yield ends
    for end in ends:
        try:
            os.close(end)
        except OSError:
            continue


def test_large_messages_arrive_whole_and_in_order(pipe: tuple[int, int]) -> None:
    messages = [b"", b"x", os.urandom(3_000_000)]
    sender = threading.Thread(target=lambda: [wire.send(pipe[1], each) for each in messages])
    sender.start()
    assert [wire.receive(pipe[0], time.monotonic() + 20) for _ in messages] == messages
    sender.join()


def test_a_side_that_is_silent_or_does_not_read_is_late(pipe: tuple[int, int]) -> None:
    with pytest.raises(wire.Late):
        wire.receive(pipe[0], time.monotonic() + 0.1)
    with pytest.raises(wire.Late):
        wire.send(pipe[1], b"x" * 1_000_000, time.monotonic() + 0.1)


def test_a_side_that_is_gone(pipe: tuple[int, int]) -> None:
    os.close(pipe[1])
    with pytest.raises(EOFError):
        wire.receive(pipe[0])
    left, right = os.pipe()
    os.close(left)
    with pytest.raises(BrokenPipeError):
        wire.send(right, b"x")
    os.close(right)


def test_a_length_that_cannot_be() -> None:
    left, right = os.pipe()
    os.write(right, b"\xff" * 8)
    with pytest.raises(ValueError, match="impossible"):
        wire.receive(left)
    os.close(left)
    os.close(right)
