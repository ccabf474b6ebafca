"""A run from the command line, and the commands that come after it."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from grpo_lightning.cli.main import main

TINY = Path(__file__).parents[1] / "conf" / "tiny.yaml"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONWARNINGS", "ignore")
    for name in ("LOCAL_RANK", "RANK", "WORLD_SIZE", "WANDB_API_KEY", "WANDB_MODE"):
        monkeypatch.delenv(name, raising=False)


def fit(*words: str) -> int:
    return main(["fit", "--config", str(TINY), *words])


def steps(path: Path, column: str) -> list[int]:
    """Logger steps of the lines of a CSV file that have a value in ``column``."""
    with path.open(newline="") as file:
        return [int(line["step"]) for line in csv.DictReader(file) if line[column]]


def test_fit_and_all_that_comes_after(capsys: pytest.CaptureFixture[str]) -> None:
    assert fit() == 0
    output = capsys.readouterr().out
    assert output.startswith("grpo_lightning 0.1.0: run runs/001\n")
    run = Path("runs/001")
    for name in ("config.yaml", "metrics.csv", "checkpoints/last.ckpt", "checkpoints/best.ckpt"):
        assert (run / name).exists(), name
    assert steps(run / "metrics.csv", "reward/mean") == [3, 4, 5]

    for command in ("validate", "test"):
        assert main([command]) == 0
        assert "accuracy" in capsys.readouterr().out
        assert (run / command / "metrics.csv").exists()
    assert main(["predict", "--data.validation.held_out.limit", "3"]) == 0
    assert "predictions runs/001/predictions.jsonl" in capsys.readouterr().out
    rows = [json.loads(line) for line in (run / "predictions.jsonl").read_text().splitlines()]
    assert [(row["dataset"], row["index"]) for row in rows] == [("held_out", index) for index in (0, 0, 1, 1, 2, 2)]
    assert {"prompt", "completion", "reward", "components", "log_prob", "length", "finish"} <= set(rows[0])
    assert main(["predict", "--ckpt_path", "runs/001/checkpoints/last.ckpt", "--output", "mine/out.jsonl"]) == 0
    assert len(Path("mine/out.jsonl").read_text().splitlines()) == 8

    assert sorted(path.name for path in Path("runs").iterdir()) == ["001"], "evaluation makes no run of its own"


def test_a_saved_configuration_runs_again() -> None:
    assert fit("--trainer.max_steps", "3", "--early_stopping.patience", "5") == 0
    saved = Path("runs/001/config.yaml")
    first = yaml.safe_load(saved.read_text())
    assert first["model"]["advantage"]["class_path"] == "grpo_lightning.advantages.leave_one_out.LeaveOneOut"
    assert first["model"]["seed"] is None, "it follows seed_everything"
    assert first["early_stopping"]["patience"] == 5
    assert main(["fit", "--config", str(saved)]) == 0
    second = yaml.safe_load(Path("runs/002/config.yaml").read_text())
    assert second == first
    both = [Path(f"runs/00{number}/samples/train.jsonl").read_text() for number in (1, 2)]
    assert both[0] == both[1]


def test_resume_continues_the_run_in_its_folder() -> None:
    assert fit("--trainer.max_steps", "4") == 0
    assert main(["fit", "--resume", "auto", "--trainer.max_steps", "6"]) == 0
    assert [path.name for path in Path("runs").iterdir()] == ["001"]
    assert steps(Path("runs/001/metrics.csv"), "reward/mean") == [3, 4, 5, 6]
    assert yaml.safe_load(Path("runs/001/config.yaml").read_text())["trainer"]["max_steps"] == 6


def test_named_folder_and_callbacks() -> None:
    words = ["--trainer.max_steps=3", "--trainer.callbacks+=sample_log", "--trainer.callbacks+=LearningRateMonitor"]
    assert fit("--run_folder", "mine", *words) == 0
    assert Path("mine/checkpoints/last.ckpt").exists()
    assert not Path("runs").exists()
    with Path("mine/metrics.csv").open(newline="") as file:
        assert "lr-AdamW" in next(csv.reader(file))


def test_wandb_by_one_flag() -> None:
    assert fit("--trainer.max_steps", "3", "--wandb") == 0
    (offline,) = Path("runs/001/wandb").glob("offline-run-*")
    identity = Path("runs/001/wandb_id").read_text()
    assert (offline / f"run-{identity}.wandb").exists()


def test_print_config_runs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert fit("--print_config", "--model.loss.epsilon_low", "0.1") == 0
    printed = yaml.safe_load(capsys.readouterr().out)
    assert printed["model"]["loss"]["init_args"] == {"epsilon_low": 0.1, "epsilon_high": 0.28}
    assert not Path("runs").exists()


def test_help_names_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "--help"]) == 0
    text = capsys.readouterr().out
    assert "--model.group_size (8)" in text
    assert "Completions of a prompt." in text


@pytest.mark.slow
@pytest.mark.multiprocess
def test_ctrl_c_saves_and_says_where() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "grpo_lightning", "fit", "--config", str(TINY), "--trainer.max_steps", "100000",
         "--save_every", "100000"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    metrics = Path("runs/001/metrics.csv")
    try:
        patience = time.monotonic() + 120
        while not (metrics.exists() and metrics.read_text().count("\n") > 8):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < patience
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 130, errors
    assert errors.splitlines()[-1] == (
        "stopped; saved runs/001/checkpoints/last.ckpt; resume with: python -m grpo_lightning fit --resume runs/001"
    )
    assert Path("runs/001/checkpoints/last.ckpt").exists()


@pytest.mark.slow
@pytest.mark.multiprocess
def test_two_processes_share_one_run() -> None:
    words = ["--trainer.devices", "2", "--trainer.strategy", "ddp", "--trainer.max_steps", "4"]
    process = subprocess.Popen(
        [sys.executable, "-m", "grpo_lightning", "fit", "--config", str(TINY), *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        output, errors = process.communicate(timeout=180)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, errors
    assert output.count("grpo_lightning 0.1.0: run runs/001") == 1
    assert [path.name for path in Path("runs").iterdir()] == ["001"]
    assert steps(Path("runs/001/metrics.csv"), "reward/mean") == [3, 4]


def test_a_finished_run_is_not_touched(capsys: pytest.CaptureFixture[str]) -> None:
    assert fit("--trainer.max_steps", "4") == 0
    last = Path("runs/001/checkpoints/last.ckpt")
    before = last.read_bytes()
    assert main(["fit", "--resume", "runs/001"]) == 2
    assert "error: trainer.max_steps: 4 is reached: " in capsys.readouterr().err
    assert last.read_bytes() == before
    assert main(["fit", "--resume", "runs/001", "--trainer.max_steps", "5"]) == 0
