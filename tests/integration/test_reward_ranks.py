"""A reward that fails on one of two ranks: both go on, or both stop with one message; none waits for ever."""

from __future__ import annotations

import csv
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
CONFIG = TESTS / "conf" / "tiny.yaml"
SECONDS = 150

pytestmark = [pytest.mark.slow, pytest.mark.multiprocess]


def run(folder: Path, reward: str, *words: str, debug: bool = False, command: str = "fit") -> tuple[int, str]:
    """Exit code and standard error of a run on two ranks, which is killed where it takes too long."""
    settings = [
        "--run_folder", str(folder), "--model.rewards", f"[{{reward: helpers.rank_rewards.{reward}}}]", "--model.warmup",
        "null", "--trainer.max_steps", "2", "--trainer.devices", "2", "--trainer.strategy", "ddp", "--data.validation", "null",
    ]  # fmt: skip
    environment = os.environ | {"PYTHONPATH": str(TESTS), "OMP_NUM_THREADS": "1"}
    environment |= {"GRPO_LIGHTNING_DEBUG": "1"} if debug else {}
    process = subprocess.Popen(
        [sys.executable, "-m", "grpo_lightning", command, "--config", str(CONFIG), *settings, *words],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Lightning keeps SIGTERM for itself: only SIGKILL ends a run that waits for ever
    )
    try:
        _, error = process.communicate(timeout=SECONDS)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return process.returncode, error


def errors(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("error: ")]


def rollouts(folder: Path) -> list[dict[str, str]]:
    with (folder / "metrics.csv").open() as file:
        return [row for row in csv.DictReader(file) if row["reward/mean"] or row["group/dropped"]]


def field(name: str, value: str) -> tuple[str, str]:
    return f"--model.rewards.0.{name}", value


def test_stop_stops_both_with_one_message(tmp_path: Path) -> None:
    code, error = run(tmp_path, "raises")
    assert code == 1
    (line,) = errors(error)
    assert line.startswith("error: reward 'raises' raised KeyError: 'by hand' at rank_rewards.py:")
    assert "(group 1, member 0, prompt" in line


def test_both_raise_the_same(tmp_path: Path) -> None:
    _, error = run(tmp_path, "raises", debug=True)
    raised = re.findall(r"^\[rank(\d)\]: grpo_lightning\.errors\.RewardError: (.*)$", error, re.MULTILINE)
    assert sorted(rank for rank, _ in raised) == ["0", "1"]
    assert len({text for _, text in raised}) == 1


def test_of_two_the_first_is_told(tmp_path: Path) -> None:
    code, error = run(tmp_path, "raises_on_both")
    (line,) = errors(error)
    assert (code, "'rank 0'" in line) == (1, True)


@pytest.mark.parametrize("prompts", [3, 1])
def test_stop_in_an_evaluation(tmp_path: Path, prompts: int) -> None:
    """Three prompts in batches of one: two batches on one rank and one on the other; one prompt: none on one of them."""
    held_out = (
        f"{{held_out: {{source: {{name: sorting, length: 2, split: held_out, count: {prompts}}}, batch_prompts: 1}}}}"
    )
    code, error = run(tmp_path, "raises_in_evaluation", "--data.validation", held_out)
    (line,) = errors(error)
    assert "reward 'raises_in_evaluation' raised KeyError" in line
    assert code == 1, error


def test_a_hang_on_one_rank_is_killed_there(tmp_path: Path) -> None:
    began = time.monotonic()
    words = [*field("isolation", "process"), *field("timeout", "1"), *field("on_failure", "abstain")]
    code, error = run(tmp_path, "hangs", *words)
    assert code == 0, error
    assert time.monotonic() - began < 120  # a hang is one of 200 s
    for row in rollouts(tmp_path):
        assert float(row["reward/hangs/failures/timeout"]) == float(row["reward/hangs/failures"]) == 4.0
        assert float(row["reward/abstained_fraction"]) == 0.5


def test_a_group_of_one_rank_is_dropped(tmp_path: Path) -> None:
    code, error = run(tmp_path, "spoils_a_row", *field("on_failure", "drop_group"))
    assert code == 0, error
    for row in rollouts(tmp_path):
        assert float(row["reward/spoils_a_row/groups_dropped"]) == 1.0
        assert float(row["reward/spoils_a_row/failures/not_finite"]) == 1.0
        assert float(row["reward/abstained_fraction"]) == 0.5
        assert float(row["perf/rows_run"]) <= 4.0
