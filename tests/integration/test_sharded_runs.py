"""Sharded runs from the command line: saved, gone on with, and read by one process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch

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
    return torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)  # type: ignore[no-any-return]


def flat(state: dict[str, Any]) -> torch.Tensor:
    return torch.cat([each.flatten() for each in state["state_dict"].values()])


def moments(state: dict[str, Any]) -> torch.Tensor:
    (optimizer,) = state["optimizer_states"]
    return torch.cat([each["exp_avg_sq"].flatten() for _, each in sorted(optimizer["state"].items())])


# Three updates are a rollout and the first update of the next.
@pytest.mark.parametrize("stop", [2, 3])
def test_a_run_that_is_gone_on_with_is_the_whole_run(stop: int, tmp_path: Path) -> None:
    whole = fit(tmp_path / "whole", *SHARDED, "--trainer.max_steps=5")
    part = fit(tmp_path / "part", *SHARDED, f"--trainer.max_steps={stop}")
    assert not torch.equal(flat(part), flat(whole))
    command("fit", "--resume", str(tmp_path / "part"), "--trainer.max_steps=5")
    resumed = checkpoint(tmp_path / "part")
    assert torch.equal(flat(resumed), flat(whole))
    assert torch.equal(moments(resumed), moments(whole))


def test_one_process_goes_on_with_what_two_have_saved_and_exports_it(tmp_path: Path) -> None:
    whole = fit(tmp_path / "whole", "--trainer.max_steps=4")
    start = fit(tmp_path / "part", *SHARDED, "--trainer.max_steps=2")
    command("fit", "--resume", str(tmp_path / "part"), "--trainer.max_steps=4", "--trainer.strategy=auto",
            "--trainer.devices=1")  # fmt: skip
    resumed = checkpoint(tmp_path / "part")
    moved = (flat(whole) - flat(start)).norm()
    assert float(moved) > 1e-4
    assert float((flat(resumed) - flat(whole)).norm() / moved) < 1e-8
    command("export", "--run", str(tmp_path / "part"), "--output", str(tmp_path / "exported"))
    assert (tmp_path / "exported" / "model.safetensors").exists()
