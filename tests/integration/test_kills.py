"""A run that is killed again and again, at moments that nobody chose, ends as the run that was left alone."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from grpo_lightning.cli.run_difference import PARTS, difference
from grpo_lightning.cli.run_folder import RunFolder
from helpers.launched_ranks import TESTS, run_ranks

TINY = TESTS / "conf" / "tiny.yaml"
KILLS = int(os.environ.get("GRPO_LIGHTNING_KILLS", "3"))
UPDATES = 60 * (KILLS + 1)
PATIENCE = 120
SETTINGS = ["--config", str(TINY), "--model.updates_per_rollout=2", "--model.epochs_per_rollout=2", "--save_every=3",
            f"--trainer.max_steps={UPDATES}", "--resume=auto"]  # fmt: skip

pytestmark = [pytest.mark.slow, pytest.mark.multiprocess, pytest.mark.timeout(600 + 60 * KILLS)]


def started(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "grpo_lightning", "fit", f"--run_folder={folder}", *SETTINGS],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def written(folder: Path) -> float:
    """When the metrics were last written."""
    metrics = folder / "metrics.csv"
    return metrics.stat().st_mtime if metrics.exists() else 0.0


def updates(folder: Path) -> int:
    """Updates that the last checkpoint has seen; it must be readable at any time."""
    last = RunFolder(folder).last
    return int(torch.load(last, weights_only=True, mmap=True)["global_step"]) if last.exists() else 0


def test_a_run_survives_any_number_of_kills(tmp_path: Path) -> None:
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    words = ["-m", "grpo_lightning", "fit", f"--run_folder={straight}", *SETTINGS]
    (done,) = run_ranks(words, [dict(os.environ)], seconds=300 + 20 * KILLS)
    assert done.returncode == 0, done.stderr[-3000:]
    draw, taken = random.Random(7), [0]
    for _ in range(KILLS):
        before, process = written(killed), started(killed)
        try:
            end = time.monotonic() + PATIENCE
            while written(killed) == before:
                assert process.poll() is None, process.communicate()[0]
                assert time.monotonic() < end
                time.sleep(0.01)
            time.sleep(draw.uniform(0.0, 1.0))
        finally:
            alive = process.poll() is None
            if alive:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        assert alive, "it was over before it was killed"
        taken.append(updates(killed))
    assert taken == sorted(taken)
    process = started(killed)
    output, _ = process.communicate(timeout=PATIENCE + 20 * KILLS)
    assert process.returncode == 0, output
    found = difference(RunFolder(straight), RunFolder(killed))
    assert found.found == {part: [] for part in PARTS}
    assert found.compared["metrics"] > UPDATES
    print(f"{KILLS} kills; updates in the last checkpoint after each: {taken[1:]} of {UPDATES}")
