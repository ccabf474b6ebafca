"""Two processes train the weights that one trains."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from helpers.launched_ranks import run_commands

CONFIG = Path(__file__).parents[1] / "conf" / "tiny.yaml"
SETTINGS = [
    "--model.policy.dtype=float64",
    "--model.prompts_per_rollout=5",
    "--model.updates_per_rollout=2",
    "--model.micro_batch_tokens=20",
    "--trainer.max_steps=6",
    "--model.rewards=[{name: regex, pattern: '[0-4]'}, {name: length, maximum: 4, buffer: 3, weight: 0.3}]",
    "--seed_everything=4",
]


START = [sys.executable]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]


def _weights(folder: Path, *words: str, start: list[str] = START) -> dict[str, torch.Tensor]:
    command = [*start, "-m", "grpo_lightning", "fit", "--config", str(CONFIG), "--run_folder", str(folder)]
    (run,) = run_commands([[*command, *SETTINGS, *words]], seconds=150)
    assert run.returncode == 0, run.stdout + run.stderr
    state: dict[str, torch.Tensor] = torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"]
    return state


@pytest.mark.slow
@pytest.mark.multiprocess
@pytest.mark.parametrize(
    ("aggregation", "strategy", "started"),
    [
        ("token_mean", "ddp", START),
        ("sequence_mean_token_mean", "ddp", START),
        ("sequence_mean_token_mean", "fsdp2", TORCHRUN),
    ],
    ids=["ddp-token_mean", "ddp", "fsdp2-torchrun"],
)
def test_two_processes_train_what_one_trains(
    aggregation: str, strategy: str, started: list[str], tmp_path: Path
) -> None:
    # Five groups on two ranks in two updates: uneven, and some rank may have nothing to do in an update.
    one = _weights(tmp_path / "one", "--model.aggregation", aggregation)
    words = ["--model.aggregation", aggregation, "--trainer.devices=2", "--trainer.strategy", strategy]
    two = _weights(tmp_path / "two", *words, start=started)
    start = _weights(tmp_path / "start", "--trainer.max_steps=2")
    moved = torch.cat([(one[name] - start[name]).flatten() for name in one])
    apart = torch.cat([(one[name] - two[name]).flatten() for name in one])
    assert moved.norm() > 1e-3
    assert apart.norm() / moved.norm() < 1e-8
