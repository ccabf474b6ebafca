"""A server that a run has started ends with it, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

CHILD = (
    "import time\n"
    "from grpo_lightning_vllm.parent import end_with_parent\n"
    "end_with_parent()\n"
    "print('on', flush=True)\n"
    "time.sleep(60)\n"
)
PARENT = (
    "import subprocess, sys, time\n"
    "child = subprocess.Popen([sys.executable, '-c', sys.argv[1]], start_new_session=True, stdout=subprocess.PIPE)\n"
    "child.stdout.readline()\n"
    "print(child.pid, flush=True)\n"
    "time.sleep(60)\n"
)


def state(process: int) -> str:
    """Whether a process is there, by signal 0."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return "gone"
    with open(f"/proc/{process}/stat") as file:
        return "gone" if file.read().rpartition(")")[2].split()[0] == "Z" else "there"


def test_a_killed_parent_takes_its_server_with_it() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, CHILD], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    try:
        time.sleep(1.5)  # longer than between two looks at the parent
        assert state(child) == "there"
        parent.kill()
        parent.wait()
        end = time.monotonic() + 20
        while state(child) == "there":
            assert time.monotonic() < end
            time.sleep(0.1)
    finally:
        parent.kill()
        parent.wait()
        if state(child) == "there":
            os.kill(child, signal.SIGKILL)
