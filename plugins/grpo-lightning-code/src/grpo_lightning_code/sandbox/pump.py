"""Moving a run's streams with bounds on their size and on time."""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Callable
from typing import IO, Literal, cast

Stop = Literal["closed", "time", "output"]
_CHUNK = 1 << 16


class Pump:
    """Writes to and reads from pipes until all of them are closed, or a bound is met.

    Args:
        feed: What to write, by stream; a stream is closed after it.
        drain: What to read from, by name.
        most: Bytes that the drained streams may give together, ``report`` aside.
        on_report: Called with each complete line of ``report``; returns the time at which the run must end, if it
            says when it began.
    """

    def __init__(
        self,
        *,
        feed: dict[IO[bytes], bytes],
        drain: dict[str, IO[bytes]],
        most: int,
        on_report: Callable[[bytes], float | None],
    ) -> None:
        self._selector = selectors.DefaultSelector()
        self._rest = {stream: memoryview(data) for stream, data in feed.items()}
        self._most, self._on_report = most, on_report
        self._discard = False
        self._line = bytearray()
        self.received = {name: bytearray() for name in drain}
        for stream in feed:
            os.set_blocking(stream.fileno(), False)
            self._selector.register(stream, selectors.EVENT_WRITE)
        for name, stream in drain.items():
            self._selector.register(stream, selectors.EVENT_READ, name)

    def run(self, deadline: float) -> Stop:
        """Go on until ``deadline`` (of the monotonic clock, or what a report moves it to), a full output, or the end."""
        while any(key.data for key in self._selector.get_map().values()):
            left = deadline - time.monotonic()
            if left <= 0:
                return "time"
            for key, _ in self._selector.select(left):
                stream = cast("IO[bytes]", key.fileobj)
                if key.data is None:
                    self._write(stream)
                else:
                    deadline = self._read(key.data, stream) or deadline
            if (
                not self._discard
                and sum(len(data) for name, data in self.received.items() if name != "report") > self._most
            ):
                return "output"
        return "closed"

    def finish(self, seconds: float) -> None:
        """Throw away what still comes, until all is closed or ``seconds`` are over."""
        self._discard = True
        self.run(time.monotonic() + seconds)

    def close(self) -> None:
        """Forget every stream."""
        self._selector.close()

    def _write(self, stream: IO[bytes]) -> None:
        rest = self._rest[stream]
        try:
            rest = rest[os.write(stream.fileno(), rest[:_CHUNK]) :] if rest else rest
        except BlockingIOError:
            return
        except OSError:  # nobody reads it any more
            rest = memoryview(b"")
        self._rest[stream] = rest
        if not rest:
            self._selector.unregister(stream)
            stream.close()

    def _read(self, name: str, stream: IO[bytes]) -> float | None:
        data = os.read(stream.fileno(), _CHUNK)
        if not data:
            self._selector.unregister(stream)
            return None
        if name != "report":
            if not self._discard:
                self.received[name] += data
            return None
        moved = None
        self._line += data
        while (end := self._line.find(b"\n")) >= 0:
            moved = self._on_report(bytes(self._line[:end])) or moved
            del self._line[: end + 1]
        return moved
