"""Commands run as a user would run them: outside the sources, in an environment of their own, with a hard end."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

SEPARATE = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTEST_ADDOPTS")


def run(command: Sequence[str | Path], folder: Path, seconds: float = 400) -> subprocess.CompletedProcess[str]:
    """Run a command outside the sources, and kill all it started when its time is over."""
    environment = {name: value for name, value in os.environ.items() if name not in SEPARATE}
    environment.update(OMP_NUM_THREADS="1", WANDB_MODE="offline", HF_HUB_OFFLINE="1")
    process = subprocess.Popen(
        [str(word) for word in command], cwd=folder, env=environment, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        output, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, errors = process.communicate()
        pytest.fail(f"{command} did not end in {seconds} s\n{output}\n{errors}")
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def succeed(command: Sequence[str | Path], folder: Path) -> str:
    done = run(command, folder)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout
