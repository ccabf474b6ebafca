"""How a benchmark talks to a worker: one JSON object a line, in both directions.

The worker says ``{"ready": ...}`` when it has loaded, waits, and answers each order with one line. What libraries print goes
to its standard error, so that the channel stays clean. A worker sleeps while it waits.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from measuring import machine, memory

WORKERS = Path(__file__).parents[1] / "workers"


class WorkerDiedError(RuntimeError):
    """A worker ended, or took too long, before it had answered."""


class Channel:
    """The worker's end. Whatever prints after it was made prints to standard error.

    Args:
        release: Whether each order begins with all freed memory given back: for memory that is to be compared, not for seconds,
            for the next tensors would have to get it again, page by page.
    """

    def __init__(self, *, release: bool = False) -> None:
        self._release = release
        self._out: TextIO = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def ready(self, **facts: Any) -> None:
        """Loaded."""
        self._say({"ready": True, "held_bytes": memory.resident(), **facts})

    def order(self) -> dict[str, Any]:
        """The next order; the process ends here when there is none."""
        line = sys.stdin.readline()
        if not line:
            os._exit(0)  # trainers and engines hold threads that would keep the process
        if self._release:
            memory.release()
        memory.restart()
        self.started, self.held = time.perf_counter(), memory.resident()
        return dict(json.loads(line))

    def done(self, **facts: Any) -> None:
        """The order is done: seconds since it came, peak memory since then, and ``facts``."""
        seconds = time.perf_counter() - self.started
        self._say({"seconds": seconds, "peak_bytes": memory.peak(), "held_bytes": self.held, **facts})

    def _say(self, message: Mapping[str, Any]) -> None:
        self._out.write(json.dumps(message) + "\n")
        self._out.flush()


class Worker:
    """The benchmark's end: a process that has loaded what it needs and waits for orders.

    Args:
        python: Interpreter of its environment.
        script: File name in ``benchmarks/workers``.
        arguments: Its command line.
        threads: Threads that it computes with.
        kept_memory: Whether it gets large pages and keeps freed memory, as the command line of this library has it, or
            allocates as the C library and torch do by default.
    """

    def __init__(
        self, python: Path, script: str, arguments: Sequence[str], *, threads: int, kept_memory: bool = True
    ) -> None:
        settings = machine.kept_memory()
        environment = {name: each for name, each in os.environ.items() if name not in settings} | {
            **machine.threads_of(threads),
            **(settings if kept_memory else {}),
            "TOKENIZERS_PARALLELISM": "false",
            "HF_HUB_OFFLINE": "1",
            "PYTHONPATH": os.pathsep.join([str(WORKERS.parent), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
        }
        self.script = script
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (lives as long as the worker)
        self._process = subprocess.Popen(
            [str(python), str(WORKERS / script), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=environment,
        )
        self.facts = self._answer()

    def order(self, **what: Any) -> dict[str, Any]:
        """Give an order and wait for its answer."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(what) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._death() from None
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):  # a library may have printed before the channel was there
                return dict(json.loads(line))
        raise self._death()

    def _death(self) -> WorkerDiedError:
        code = self._process.wait()
        self._errors.seek(0)
        tail = "".join(self._errors.readlines()[-25:])
        return WorkerDiedError(f"{self.script} ended with {code}:\n{tail}")

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._errors.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
