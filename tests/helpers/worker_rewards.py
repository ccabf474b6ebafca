"""Rewards for worker processes, which import them from here."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grpo_lightning.errors import ConfigError, DataError
from grpo_lightning.rewards.base import Reward


class Working(Reward):
    """Does what each completion says, and tells how it was set up."""

    name = "test_working"

    def __init__(self, *, folder: str = "", broken: str = "") -> None:
        self.folder, self.broken, self.set_up = folder, broken, 0

    def setup(self) -> None:
        if self.broken == "raise":
            raise OSError("no model")
        if self.broken == "config":
            raise ConfigError("model", "x", "is unknown", "mend it")
        if self.broken == "die":
            os._exit(5)
        self.set_up += 1

    def score(self, *, completions: Sequence[str]) -> list[float]:
        return [float(getattr(self, text)()) for text in completions]

    def setups(self) -> int:
        return self.set_up

    def process(self) -> int:
        return os.getpid()

    def path(self) -> bool:
        return "/a/path/of/the/run" in sys.path

    def prints(self) -> int:
        sys.stdout.write("noise\n" * 10_000)
        sys.stdout.flush()
        return len(sys.stdin.read())

    def family(self) -> int:
        """Starts a child, one in a session of its own, and an orphan of that; then hangs."""
        script = "import subprocess, time; subprocess.Popen(['sleep', '300'], start_new_session=True)"
        children = [
            subprocess.Popen(["sleep", "300"]),
            subprocess.Popen(["sleep", "300"], start_new_session=True),
            subprocess.Popen([sys.executable, "-c", script], start_new_session=True),
        ]
        children[2].wait()
        Path(self.folder, "pids").write_text(
            " ".join(map(str, [os.getpid(), os.getppid(), children[0].pid, children[1].pid]))
        )
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(300)
        return 1

    def fills_the_pipe(self) -> int:
        """Writes to every pipe that it finds open, as a confused library might."""
        for descriptor in range(3, 256):
            try:
                os.write(descriptor, b"\x00" * 7 + b"\x04oops")
            except OSError:
                continue
        return 1


def config(completions: Sequence[str]) -> list[float]:
    raise DataError("column", {1}, "is wrong", "mend it")


async def awaits(completions: Sequence[str]) -> list[Any]:
    await asyncio.sleep(0.01)
    return [[0.5], None, True][: len(completions)]
