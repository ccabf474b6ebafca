"""A scheduler asks a run to stop: it saves and leaves, wherever it is, and goes on as if it had not been asked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch

from grpo_lightning import preemption
from grpo_lightning.cli.checkpoints import LastCheckpoint
from grpo_lightning.errors import PreemptedError
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.function import FunctionReward
from helpers.launched_ranks import TESTS
from helpers.tiny_runs import digits_in_place, tiny_data, tiny_module, tiny_trainer, weights

UPDATES = 8
TINY = TESTS / "conf" / "tiny.yaml"


def tell() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


class Tell(pl.Callback):
    """Sends the signal at one moment of a run.

    Args:
        update: Updates that are complete then.
        where: ``sampling``, ``update`` or ``validation``.
    """

    def __init__(self, update: int, where: str) -> None:
        self.update, self.where = update, where

    def _at(self, trainer: pl.Trainer, where: str) -> None:
        if (self.update, self.where) == (trainer.global_step, where):
            tell()

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        engine: Any = pl_module.engine
        generate = engine.generate

        def watched(*arguments: Any, **settings: Any) -> Any:
            self._at(trainer, "sampling")
            return generate(*arguments, **settings)

        engine.generate = watched

    def on_before_optimizer_step(self, trainer: pl.Trainer, pl_module: pl.LightningModule, optimizer: Any) -> None:
        self._at(trainer, "update")

    def on_validation_batch_start(self, trainer: pl.Trainer, *_: Any) -> None:
        self._at(trainer, "validation")


def fit(folder: Path, *callbacks: pl.Callback, checkpoint: Path | None = None, **changed: Any) -> torch.Tensor:
    pl.seed_everything(5, verbose=False)
    module = tiny_module(**changed)
    saver = LastCheckpoint(folder, every=10_000)
    trainer = tiny_trainer(folder, UPDATES, callbacks=[*callbacks, saver])
    trainer.fit(module, datamodule=tiny_data(validate_every=3), ckpt_path=str(checkpoint) if checkpoint else None)
    return weights(module)


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> torch.Tensor:
    return fit(tmp_path_factory.mktemp("straight"))


# Two updates of warm-up, then rollouts of four: 6 is between two rollouts, 3 before a validation and inside one.
@pytest.mark.parametrize(
    ("update", "where", "saved"),
    [
        (1, "update", 2),
        (4, "update", 5),
        (5, "update", 6),
        (6, "sampling", 6),
        (3, "validation", 3),
        (6, "validation", 6),
    ],
)
@pytest.mark.timeout(90)
def test_a_run_stops_and_goes_on(update: int, where: str, saved: int, straight: torch.Tensor, tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(PreemptedError, match="asked to stop by signal 15"):
        fit(tmp_path, Tell(update, where))
    signal.signal(signal.SIGTERM, before)
    assert preemption.requested() is None
    last = tmp_path / "last.ckpt"
    assert torch.load(last, weights_only=True)["global_step"] == saved
    assert torch.equal(fit(tmp_path / "again", checkpoint=last), straight)


@pytest.mark.timeout(60)
def test_a_reward_that_is_waited_for_does_not_keep_it(straight: torch.Tensor, tmp_path: Path) -> None:
    slow, entered = threading.Event(), threading.Event()
    calls = []

    def hangs_in_the_second_rollout(completions: list[str], answer: list[str], stage: str) -> list[float]:
        calls.append(stage)
        if calls.count("train") == 2 and not slow.is_set():
            entered.set()
            threading.Timer(0.3, tell).start()
            slow.wait(30)
        return digits_in_place(completions, answer)

    rewards = [RewardEntry(reward=FunctionReward(function=hangs_in_the_second_rollout), timeout=40.0)]
    before, start = signal.getsignal(signal.SIGTERM), time.monotonic()
    with pytest.raises(PreemptedError):
        fit(tmp_path, rewards=rewards)
    signal.signal(signal.SIGTERM, before)
    slow.set()
    assert entered.is_set()
    assert time.monotonic() - start < 25
    last = tmp_path / "last.ckpt"
    assert torch.load(last, weights_only=True)["global_step"] == 6
    assert torch.equal(fit(tmp_path / "again", checkpoint=last), straight)


@pytest.mark.slow
@pytest.mark.multiprocess
@pytest.mark.parametrize(
    "strategy", [[], ["--trainer.strategy=ddp", "--trainer.devices=2"], ["--trainer.strategy=fsdp2", "--trainer.devices=2"]],
    ids=["one", "ddp", "fsdp2"],
)  # fmt: skip
def test_a_command_that_is_asked_to_stop_says_how_to_go_on(strategy: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = subprocess.Popen(
        [sys.executable, "-m", "grpo_lightning", "fit", "--config", str(TINY), "--run_folder", str(folder),
         "--trainer.max_steps=100000", "--save_every=100000", *strategy],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    metrics = folder / "metrics.csv"
    try:
        end = time.monotonic() + 150
        while not (metrics.exists() and metrics.read_text().count("\n") > 6):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < end
            time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 143, errors
    assert f"stopped; saved {folder}/checkpoints/last.ckpt; resume with: " in errors
    assert (folder / "checkpoints" / "last.ckpt").exists()
