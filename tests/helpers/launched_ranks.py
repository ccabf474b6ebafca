"""Processes of a test that train together, each with a hard end: Lightning keeps SIGTERM for itself inside a collective."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

TESTS = Path(__file__).parents[1]


def rank_variables(ranks: int) -> list[dict[str, str]]:
    """The environment that each of several ranks on this machine is told; nothing where there is one."""
    if ranks == 1:
        return [{}]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = {"WORLD_SIZE": str(ranks), "NODE_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return [shared | {"LOCAL_RANK": str(rank)} for rank in range(ranks)]


def run_ranks(
    words: Sequence[str], environments: Sequence[Mapping[str, str]], *, seconds: float, folder: Path | None = None
) -> list[subprocess.CompletedProcess[str]]:
    """Run ``python WORDS...`` once for each environment, at the same time, and wait for all of them.

    Raises:
        TimeoutError: If one has not ended after ``seconds``; all are killed, with all that they started.
    """
    commands = [[sys.executable, *words] for _ in environments]
    return run_commands(commands, seconds=seconds, environments=environments, folder=folder)


def run_commands(
    commands: Sequence[Sequence[str]],
    *,
    seconds: float,
    environments: Sequence[Mapping[str, str]] | None = None,
    folder: Path | None = None,
) -> list[subprocess.CompletedProcess[str]]:
    """Run commands at the same time, and wait for all of them.

    Raises:
        TimeoutError: If one has not ended after ``seconds``; all are killed, with all that they started.
    """
    places = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
    base = os.environ | {"PYTHONPATH": places, "OMP_NUM_THREADS": "1"}
    processes = [
        # A session of its own, so that nothing of it is left when it hangs.
        subprocess.Popen(list(command), env=base | dict(variables), cwd=folder, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        for command, variables in zip(commands, environments or [{}] * len(commands), strict=True)
    ]  # fmt: skip
    end = time.monotonic() + seconds
    done = []
    try:
        for process in processes:
            output, error = process.communicate(timeout=max(end - time.monotonic(), 0.1))
            done.append(subprocess.CompletedProcess(process.args, process.returncode, output, error))
    except subprocess.TimeoutExpired as late:
        raise TimeoutError(f"{commands[0]} did not end in {seconds} s") from late
    finally:
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    return done
