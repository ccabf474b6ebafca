"""One gradient over ranks: two processes train as one does."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.tiny_policy import relative, save_model

TESTS = Path(__file__).parents[1]
SCRIPT = TESTS / "helpers" / "rank.py"
SECONDS = 120

pytestmark = [pytest.mark.slow, pytest.mark.multiprocess]


def start(arguments: list[str], **variables: str) -> subprocess.Popen[bytes]:
    environment = os.environ | {"PYTHONPATH": str(TESTS), "OMP_NUM_THREADS": "1"} | variables
    # A group of its own, so that nothing of it is left when it hangs.
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), *arguments],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def finish(processes: list[subprocess.Popen[bytes]]) -> None:
    try:
        for process in processes:
            _, error = process.communicate(timeout=SECONDS)
            assert process.returncode == 0, error.decode()[-2000:]
    finally:
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def run(model: str, folder: Path, ranks: int, kind: str) -> dict[str, Any]:
    arguments = [model, str(folder), str(ranks), kind]
    if ranks == 1:
        finish([start(arguments)])
    else:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        shared = {"WORLD_SIZE": str(ranks), "NODE_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        finish([start(arguments, LOCAL_RANK=str(rank), **shared) for rank in range(ranks)])
    return torch.load(folder / f"ranks-{ranks}.pt", weights_only=True)  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", ["full", "lora", "update", "group"])
def test_two_ranks_train_as_one(tmp_path: Path, kind: str) -> None:
    model = save_model(tmp_path / "model")
    one, two = (run(model, tmp_path, ranks, kind) for ranks in (1, 2))
    start_weights = one["weights"][0]
    for update in range(6):
        assert one["weights"][update].keys() == two["weights"][update].keys()
        if update == 0:
            assert all(torch.equal(two["weights"][0][name], each) for name, each in start_weights.items())
        else:
            changes = [
                {name: each - start_weights[name] for name, each in ran["weights"][update].items()}
                for ran in (one, two)
            ]
            assert relative(changes[1], changes[0]) < 1e-10
    for first, second in zip(one["metrics"], two["metrics"], strict=True):
        assert first.keys() == second.keys()
        for name in first:
            if not name.startswith("time/") and name != "perf/micro_batches":
                assert second[name] == pytest.approx(first[name], rel=1e-9, abs=1e-12), name
