"""Messages between a run and a worker process: a length and so many bytes, over a pipe."""

from __future__ import annotations

import os
import select
import struct
import time

_HEAD = struct.Struct(">Q")
LARGEST = 1 << 34


class Late(Exception):  # noqa: N818 - it is no fault of the pipe
    """The other side took longer than it may."""


def send(pipe: int, message: bytes, until: float | None = None) -> None:
    """Write one message.

    Args:
        pipe: File descriptor, non-blocking if there is a limit.
        message: The bytes.
        until: Limit, by ``time.monotonic``.

    Raises:
        OSError: If the other side is gone.
        Late: If it does not read.
    """
    left = memoryview(_HEAD.pack(len(message)) + message)
    while left:
        _wait(pipe, until, reading=False)
        try:
            left = left[os.write(pipe, left[: 1 << 16]) :]
        except BlockingIOError:
            continue


def receive(pipe: int, until: float | None = None) -> bytes:
    """Read one message.

    Raises:
        EOFError: If the other side is gone.
        ValueError: If what it writes is no message.
        Late: If it does not write.
    """
    (length,) = _HEAD.unpack(_read(pipe, _HEAD.size, until))
    if length > LARGEST:
        raise ValueError("a message of impossible length")
    return _read(pipe, length, until)


def _read(pipe: int, length: int, until: float | None) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        _wait(pipe, until, reading=True)
        try:
            part = os.read(pipe, min(length - len(parts), 1 << 20))
        except BlockingIOError:
            continue
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


def _wait(pipe: int, until: float | None, *, reading: bool) -> None:
    watch = select.poll()  # select() knows no descriptor above 1023
    watch.register(pipe, select.POLLIN if reading else select.POLLOUT)
    left = None if until is None else (until - time.monotonic()) * 1000
    if left is not None and left <= 0:
        raise Late
    if not watch.poll(left):
        raise Late
