"""Sharded runs from the command line: saved, gone on with, and read by one process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from grpo_lightning.strategies.checkpoint_files import CheckpointFiles
from helpers.launched_ranks import run_ranks

CONFIG = Path(__file__).parents[1] / "conf" / "tiny.yaml"
SHARDED = ["--trainer.strategy=fsdp2", "--trainer.devices=2"]
SETTINGS = ["--model.policy.dtype=float64", "--model.prompts_per_rollout=3", "--model.updates_per_rollout=2",
            "--model.rewards=[{name: regex, pattern: '[0-4]'}, {name: length, maximum: 4, buffer: 3, weight: 0.3}]",
            "--model.micro_batch_tokens=20", "--seed_everything=4"]  # fmt: skip
SECONDS = 170

pytestmark = [pytest.mark.slow, pytest.mark.multiprocess]


def command(*words: str) -> str:
    (done,) = run_ranks(["-m", "grpo_lightning", *words], [dict(os.environ)], seconds=SECONDS)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def fit(folder: Path, *words: str) -> dict[str, Any]:
    command("fit", "--config", str(CONFIG), "--run_folder", str(folder), *SETTINGS, *words)
    return checkpoint(folder)


def checkpoint(folder: Path) -> dict[str, Any]:
    return CheckpointFiles().load_checkpoint(folder / "checkpoints" / "last.ckpt", weights_only=True)


def flat(state: dict[str, Any]) -> torch.Tensor:
    return torch.cat([each.flatten() for each in state["state_dict"].values()])


def moments(state: dict[str, Any]) -> torch.Tensor:
    (optimizer,) = state["optimizer_states"]
    return torch.cat([each["exp_avg_sq"].flatten() for _, each in sorted(optimizer["state"].items())])


FOLDERS = [
    "--trainer.strategy={class_path: FSDP2Strategy, init_args: {sharded_checkpoints: true}}",
    "--trainer.devices=2",
]
DDP = ["--trainer.strategy=ddp", "--trainer.devices=2"]
ONE = ["--trainer.strategy=auto", "--trainer.devices=1"]


# Three updates are a rollout and the first update of the next.
@pytest.mark.parametrize("stop", [2, 3])
@pytest.mark.parametrize("strategy", [SHARDED, FOLDERS], ids=["file", "folder"])
def test_a_run_that_is_gone_on_with_is_the_whole_run(strategy: list[str], stop: int, tmp_path: Path) -> None:
    whole = fit(tmp_path / "whole", *strategy, "--trainer.max_steps=5")
    part = fit(tmp_path / "part", *strategy, f"--trainer.max_steps={stop}")
    assert not torch.equal(flat(part), flat(whole))
    command("fit", "--resume", str(tmp_path / "part"), "--trainer.max_steps=5")
    resumed = checkpoint(tmp_path / "part")
    assert torch.equal(flat(resumed), flat(whole))
    assert torch.equal(moments(resumed), moments(whole))


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> torch.Tensor:
    """The weights of a run of one process that nobody stopped."""
    return flat(fit(tmp_path_factory.mktemp("alone"), *ONE, "--trainer.max_steps=5"))


@pytest.mark.parametrize(
    ("before", "after", "stop"),
    [(SHARDED, ONE, 3), (ONE, SHARDED, 3), (FOLDERS, ONE, 3), (DDP, ONE, 3), (ONE, DDP, 3), (FOLDERS, DDP, 2),
     (FOLDERS, DDP, 3), (DDP, FOLDERS, 3)],
    ids=["file-one", "one-file", "folder-one", "ddp-one", "one-ddp", "folder-ddp-2", "folder-ddp", "ddp-folder"],
)  # fmt: skip
def test_another_number_of_processes_or_strategy_goes_on(
    before: list[str], after: list[str], stop: int, alone: torch.Tensor, tmp_path: Path
) -> None:
    start = fit(tmp_path / "part", *before, f"--trainer.max_steps={stop}")
    command("fit", "--resume", str(tmp_path / "part"), "--trainer.max_steps=5", *after)
    resumed = checkpoint(tmp_path / "part")
    moved = (alone - flat(start)).norm()
    assert float(moved) > 1e-4
    assert float((flat(resumed) - alone).norm() / moved) < 1e-8


def test_a_folder_is_exported_and_evaluated_by_one_process(tmp_path: Path) -> None:
    saved = fit(tmp_path / "run", *FOLDERS, "--trainer.max_steps=2")
    command("export", "--run", str(tmp_path / "run"), "--output", str(tmp_path / "exported"))
    exported = load_file(tmp_path / "exported" / "model.safetensors")
    for name, tensor in exported.items():
        assert torch.equal(tensor, saved["state_dict"][f"policy.model.{name}"])
    command("validate", "--run", str(tmp_path / "run"), *ONE)
