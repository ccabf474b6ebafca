"""``verify-resume``: it finds nothing where a run goes on exactly, and finds it where a run does not."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch

from grpo_lightning.cli.main import main
from grpo_lightning.cli.resume_points import Point, points, updates_needed
from grpo_lightning.cli.run_difference import difference, metrics_by_step, prompts_lost
from grpo_lightning.cli.run_folder import RunFolder
from grpo_lightning.cli.verify_resume import not_deterministic
from helpers.launched_ranks import TESTS
from helpers.tiny_runs import tiny_module

TINY = TESTS / "conf" / "tiny.yaml"


def test_moments_of_a_run() -> None:
    module = tiny_module()  # two updates of warm-up; rollouts of two passes of two updates
    found = points(module, 3)
    assert [(point.update, point.event) for point in found] == [
        (1, "update"), (7, "update"), (8, "update"), (9, "update"), (6, "update"), (6, "sampling"), (7, "saving"),
        (3, "evaluating"), (3, "evaluated"),
    ]  # fmt: skip
    assert updates_needed(found, module) == 14
    plain = tiny_module(warmup=None, epochs_per_rollout=1, updates_per_rollout=1)
    assert [(point.update, point.event) for point in points(plain, None)] == [
        (1, "update"),
        (1, "sampling"),
        (2, "saving"),
    ]
    assert Point.parse(str(found[4])) == Point("", 6, "update")


def a_run(folder: Path, *, weight: float = 1.0, reward: float = 0.5, seconds: float = 1.0) -> RunFolder:
    run = RunFolder(folder)
    run.checkpoints.mkdir(parents=True)
    own = {"components": {"curriculum": {"drawn": 3}}, "buffers": [None], "reference": {}, "format": 1}
    torch.save(
        {"state_dict": {"w": torch.tensor([weight, float("nan")])}, "optimizer_states": [{"state": {0: {"step": 1}}}],
         "lr_schedulers": [], "grpo_lightning": own, "global_step": 2}, run.last,
    )  # fmt: skip
    (folder / "metrics.csv").write_text(f"step,reward/mean,time/update\n1,{reward},{seconds}\n1,,2.0\n2,0.5,1.0\n")
    return run


def test_bits_are_compared_and_times_are_not(tmp_path: Path) -> None:
    one = a_run(tmp_path / "1")
    same = difference(one, a_run(tmp_path / "2", seconds=7.0))
    assert same.equal
    assert same.compared == {"weights": 1, "optimizer": 1, "state": 4, "metrics": 4}
    close = difference(one, a_run(tmp_path / "3", weight=1.0000001))
    assert close.found == {"weights": ["w"], "optimizer": [], "state": [], "metrics": []}
    assert difference(one, a_run(tmp_path / "4", reward=0.25)).found["metrics"] == ["1.reward/mean"]
    assert metrics_by_step(one.path / "metrics.csv")["1"] == {"step": "1", "reward/mean": "0.5"}


def test_prompts_that_are_lost_or_changed(tmp_path: Path) -> None:
    def wrong(*lines: tuple[int, list[int]]) -> list[str]:
        text = "\n".join(json.dumps({"rollout": rollout, "prompts": prompts}) for rollout, prompts in lines)
        (tmp_path / "prompts.jsonl").write_text(text)
        return prompts_lost(RunFolder(tmp_path))

    assert wrong((0, [3, 1]), (1, [2, 5]), (1, [2, 5]), (2, [4, 4])) == []
    assert wrong((0, [3, 1]), (1, [2, 5]), (1, [2, 6])) == ["rollout 1 was sampled again with other prompts"]
    assert wrong((0, [3, 1]), (2, [2, 5])) == ["rollout 1 is missing"]


def test_what_is_not_deterministic_is_named() -> None:
    module = tiny_module()
    assert not_deterministic(module) == []
    module.engine.deterministic = False  # type: ignore[misc]
    assert not_deterministic(module) == ["model.engine (decode_loop)"]


SETTINGS = ["--config", str(TINY), "--model.updates_per_rollout=2", "--model.epochs_per_rollout=2"]


@pytest.mark.slow
@pytest.mark.multiprocess
@pytest.mark.timeout(600)
def test_every_moment_of_one_process(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["verify-resume", *SETTINGS]) == 0
    rows = [line for line in capfd.readouterr().out.splitlines() if line.startswith("|")]
    assert len(rows) == 10
    assert all(row.count("equal (") == 4 and row.endswith("| kept |") for row in rows[1:])


@pytest.mark.slow
@pytest.mark.multiprocess
@pytest.mark.timeout(900)
@pytest.mark.parametrize("strategy", ["ddp", "fsdp2"])
def test_moments_of_two_processes(
    strategy: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    words = [f"--trainer.strategy={strategy}", "--trainer.devices=2", "--moments=4,6,7,8"]
    assert main(["verify-resume", *SETTINGS, *words]) == 0
    assert capfd.readouterr().out.count("| kept |") == 4


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_run_that_does_not_go_on_exactly_is_found(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A reward that counts its calls, and says that it is deterministic.
    (tmp_path / "counting_reward.py").write_text(
        "calls = 0\n\ndef count(completions):\n    global calls\n    calls += 1\n"
        "    return [((calls + len(text)) % 5) / 5 for text in completions]\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.syspath_prepend(str(tmp_path))
    words = ["--model.rewards=[{reward: counting_reward.count}]", "--moments=6"]
    assert main(["verify-resume", *SETTINGS, *words]) == 1
    (row,) = [line for line in capfd.readouterr().out.splitlines() if line.startswith("| 1")]
    assert "differ" in row
