"""The completions of the next rollout are sampled while this one trains."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
import torch.distributed as dist

from grpo_lightning import GRPODataModule, create
from grpo_lightning.callbacks.rollout_metrics import rollout_metrics
from grpo_lightning.cli.checkpoints import LastCheckpoint
from grpo_lightning.errors import ConfigError, PreemptedError
from grpo_lightning.prompts.records import Records
from grpo_lightning.settings import EvaluationSet, Generation
from grpo_lightning.strategies.fsdp2 import FSDP2Strategy
from helpers.ahead_runs import ahead_module
from helpers.fake_vllm import FakeVLLM
from helpers.launched_ranks import TESTS, rank_variables, run_ranks
from helpers.tiny_policy import tiny_policy
from helpers.tiny_run import PROMPTS, fit
from helpers.tiny_runs import weights

pytestmark = pytest.mark.timeout(120)
UPDATES = 6


@pytest.fixture
def server() -> Iterator[FakeVLLM]:
    started = FakeVLLM()
    yield started
    with contextlib.suppress(OSError):
        started.stop()


def data(**settings: Any) -> GRPODataModule:
    rows = [{"prompt": prompt, "answer": str(index)} for index, prompt in enumerate(PROMPTS)]
    return GRPODataModule(train=Records(rows=rows), curriculum=create("curriculum", "sequential"), **settings)


def saved_fit(
    folder: Path, module: Any, *callbacks: pl.Callback, every: int = 10_000, checkpoint: Path | None = None
) -> torch.Tensor:
    """Train with ``last.ckpt`` in ``folder``, and return the weights."""
    saver = LastCheckpoint(folder, every=every)
    trainer = pl.Trainer(
        accelerator="cpu", devices=1, max_steps=UPDATES, default_root_dir=folder, logger=False, num_sanity_val_steps=0,
        enable_progress_bar=False, enable_model_summary=False, callbacks=[*callbacks, saver],
    )  # fmt: skip
    trainer.fit(module, data(), ckpt_path=checkpoint)
    return weights(module)


def questions(server: FakeVLLM) -> list[tuple[int, ...]]:
    """What the server has answered: seed, prompt."""
    return [(body["sampling_params"]["seed"], *body["token_ids"]) for body in server.asked]


def test_draws_are_those_of_a_run_that_waits_and_staleness_is_told(server: FakeVLLM, tmp_path: Path) -> None:
    waits = fit(tmp_path / "0", ahead_module([server.url], tmp_path / "a", ahead=0), max_steps=UPDATES)
    asked, server.asked = questions(server), []
    ahead = fit(tmp_path / "1", ahead_module([server.url], tmp_path / "b"), max_steps=UPDATES)
    assert sorted(questions(server)) == sorted(asked)  # nothing beyond the last rollout
    assert len(asked) == 3 * 3
    for one, other in zip(waits.rollouts, ahead.rollouts, strict=True):
        assert one.actions.tolist() == other.actions.tolist()
        assert torch.equal(one.behaviour_log_probs_S, other.behaviour_log_probs_S)
    assert [set(each.version_R.tolist()) for each in waits.rollouts] == [{0}, {2}, {4}]
    assert [set(each.version_R.tolist()) for each in ahead.rollouts] == [{0}, {0}, {2}]
    assert [rollout_metrics(each)["rollout/staleness"] for each in waits.rollout_reports] == [0, 0, 0]
    assert [rollout_metrics(each)["rollout/staleness"] for each in ahead.rollout_reports] == [0, 2, 2]
    # The label says which weights really answered: that of each rollout is the one before.
    labels = [body["weights"].rpartition("-")[2] for body in server.asked]
    assert labels == ["0"] * 6 + ["2"] * 3


class Open(pl.Callback):
    """Shuts the server's gate when a rollout is submitted, and opens it when its first update is about to be made."""

    def __init__(self, server: FakeVLLM, update: int) -> None:
        self.server, self.update, self.before = server, update, -1

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if trainer.global_step == self.update and batch.opens_rollout:
            collector, server = pl_module.session._collector, self.server
            submit = collector.submit

            def shut(*arguments: Any, **settings: Any) -> None:
                if settings.get("ahead"):
                    server.gate.clear()
                submit(*arguments, **settings)

            collector.submit = shut

    def on_before_optimizer_step(self, trainer: pl.Trainer, pl_module: Any, optimizer: Any) -> None:
        if trainer.global_step == self.update:
            self.before = len(self.server.asked)
            self.server.gate.set()


def test_an_update_is_made_while_the_server_samples(server: FakeVLLM, tmp_path: Path) -> None:
    watch = Open(server, 2)
    saved_fit(tmp_path, ahead_module([server.url], tmp_path / "served"), watch)
    assert watch.before == 6  # rollouts 0 and 1; the third waits at the gate, and the update comes


class SaveInFlight(Open):
    """Saves after the first update of a rollout, while the server still samples the next one."""

    def __init__(self, server: FakeVLLM, update: int, path: Path) -> None:
        super().__init__(server, update)
        self.path, self.answered = path, -1

    def on_before_optimizer_step(self, trainer: pl.Trainer, pl_module: Any, optimizer: Any) -> None:
        """Keep the gate shut."""

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if "update" in outputs and trainer.global_step == self.update + 1:
            self.answered = len(self.server.asked)
            threading.Timer(0.5, self.server.gate.set).start()
            trainer.save_checkpoint(self.path)


def test_a_checkpoint_holds_what_was_in_flight_and_nothing_is_asked_twice(server: FakeVLLM, tmp_path: Path) -> None:
    path = tmp_path / "in-flight.ckpt"
    saver = SaveInFlight(server, 2, path)
    straight = saved_fit(tmp_path / "straight", ahead_module([server.url], tmp_path / "a"), saver)
    assert saver.answered == 6
    assert len(set(questions(server))) == len(questions(server)) == 9
    stored = torch.load(path, weights_only=True)["grpo_lightning"]["submitted"]
    assert [each["rollout"] for each in stored] == [2]
    assert stored[0]["played"]["sampled"]["rollouts"]["version_R"].tolist() == [2] * 12
    server.asked = []
    resumed = saved_fit(tmp_path / "resumed", ahead_module([server.url], tmp_path / "b"), checkpoint=path)
    assert questions(server) == []
    assert torch.equal(resumed, straight)


class Tell(Open):
    """Asks the run to stop while the server samples ahead."""

    def on_before_optimizer_step(self, trainer: pl.Trainer, pl_module: Any, optimizer: Any) -> None:
        if trainer.global_step == self.update:
            os.kill(os.getpid(), signal.SIGTERM)


def test_a_run_that_is_asked_to_stop_gives_up_what_is_in_flight_and_asks_it_again(
    server: FakeVLLM, tmp_path: Path
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(PreemptedError):
        saved_fit(tmp_path, ahead_module([server.url], tmp_path / "a"), Tell(server, 2))
    signal.signal(signal.SIGTERM, before)
    assert len(server.asked) == 6
    stored = torch.load(tmp_path / "last.ckpt", weights_only=True)["grpo_lightning"]["submitted"]
    assert stored[0]["played"] is None
    server.gate.set()
    while len(server.asked) < 9:  # what nobody waits for any more is answered, too
        time.sleep(0.01)
    server.asked = []
    saved_fit(tmp_path / "resumed", ahead_module([server.url], tmp_path / "b"), checkpoint=tmp_path / "last.ckpt")
    # The prompts of the third rollout were drawn before: the curriculum goes on behind them. The run saved after update 3.
    assert sorted({body["token_ids"][0] for body in server.asked}) == sorted(
        {int(tiny_policy().tokenizer(text)["input_ids"][0]) for text in PROMPTS[:3]}
    )
    assert {body["weights"].rpartition("-")[2] for body in server.asked} == {"4"}


def test_a_validation_between_has_the_weights_of_now(server: FakeVLLM, tmp_path: Path) -> None:
    rows = [{"prompt": "ab", "answer": "1"}]
    held_out = EvaluationSet(source=Records(rows=rows), samples=3)
    module = ahead_module([server.url], tmp_path / "served")
    watch = fit(tmp_path, module, max_steps=UPDATES, data=data(validation={"held_out": held_out}, validate_every=3))
    evaluated = [int(body["weights"].rpartition("-")[2]) for body in server.asked if body["sampling_params"]["n"] == 3]
    assert evaluated == [0, 3, 6]
    assert [set(each.version_R.tolist()) for each in watch.rollouts] == [{0}, {0}, {2}]


@pytest.mark.slow
@pytest.mark.multiprocess
def test_every_rank_asks_for_its_own_rows(server: FakeVLLM, tmp_path: Path) -> None:
    rows = {}
    for ranks in (1, 2):
        words = [str(TESTS / "helpers" / "ahead_rank.py"), str(tmp_path), str(ranks), server.url]
        for done in run_ranks(words, rank_variables(ranks), seconds=100):
            assert done.returncode == 0, done.stderr[-3000:]
        told = [torch.load(tmp_path / f"ahead-{ranks}-{rank}.pt", weights_only=True) for rank in range(ranks)]
        assert all(each["staleness"] == [0, 2, 2] for each in told)
        rows[ranks] = [
            torch.cat([each["rows"][rollout]["actions"]["values"] for each in told]).tolist() for rollout in range(3)
        ]
    assert rows[1] == rows[2]


@pytest.mark.parametrize(
    ("settings", "setting", "reason"),
    [
        ({"correction": None}, "model.generation.rollouts_ahead", "nothing weighs them"),
        (
            {"correction": create("correction", "high_entropy")},
            "model.generation.rollouts_ahead",
            "nothing weighs them",
        ),
        ({"engine": "decode_loop"}, "model.generation.rollouts_ahead", "needs an engine with weights of its own"),
    ],
)
def test_what_cannot_run_ahead_is_refused(settings: Any, setting: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=reason) as error:
        ahead_module(["http://127.0.0.1:9"], tmp_path, **settings)
    assert error.value.setting == setting
    with pytest.raises(ConfigError):
        Generation(rollouts_ahead=2)


def test_a_loss_that_weighs_the_sampler_needs_no_correction(tmp_path: Path) -> None:
    module = ahead_module(["http://127.0.0.1:9"], tmp_path, correction=None, loss=create("loss", "rollout_is"))
    assert module.generation.rollouts_ahead == 1


def test_a_server_cannot_have_weights_that_stay_sharded(tmp_path: Path) -> None:
    module = ahead_module(["http://127.0.0.1:9"], tmp_path)
    try:
        with pytest.raises(ConfigError, match="leaves no process with the weights") as error:
            fit(tmp_path, module, strategy=FSDP2Strategy(unshard_for_rollout=False))
    finally:
        dist.destroy_process_group()
    assert error.value.setting == "trainer.strategy.init_args.unshard_for_rollout"
