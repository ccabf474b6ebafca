"""Tokens and operations of a profiled run, counted again from the rows that it trained on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback
from lightning.pytorch.callbacks import ModelCheckpoint

from grpo_lightning import create, profiling
from grpo_lightning.callbacks.phase_profile import PhaseProfile
from helpers.launched_ranks import TESTS, rank_variables, run_ranks
from helpers.tiny_run import Watch
from helpers.tiny_runs import tiny_data, tiny_module, tiny_trainer

UPDATES = 6
"""A rollout of two updates in each of two epochs, then half of another."""


class Dealt(Callback):
    """Keeps the rows of every micro-batch of every rollout, and each row's advantage."""

    def __init__(self) -> None:
        self.buffers: list[Any] = []

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if "rollout" in outputs:
            self.buffers.append(pl_module.session.buffer)


def lengths(rollouts: Any) -> tuple[list[int], list[int], list[int]]:
    """Of each row: its prompt's index, its prompt's length, its steps."""
    prompts = rollouts.prompts.lengths().tolist()
    index = rollouts.prompt_R.tolist()
    return index, [prompts[each] for each in index], rollouts.actions.lengths().tolist()


def passed(rollouts: Any, rows: list[int], loud: list[bool]) -> dict[str, int]:
    """Tokens of one pass over ``rows``, by plain loops: all that hold one, and those without a signal."""
    index, prompt, steps = lengths(rollouts)
    tokens = sum(steps[row] - 1 for row in rows)
    silent = sum(steps[row] - 1 for row in rows if not loud[row])
    for each in {index[row] for row in rows}:
        members = [row for row in rows if index[row] == each]
        tokens += prompt[members[0]]
        if not any(loud[row] for row in members):
            silent += prompt[members[0]]
    return {"tokens": tokens, "silent": silent}


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Watch, Dealt]:
    """A run whose rewards leave some groups without a signal, which its KL runs all the same."""
    folder = tmp_path_factory.mktemp("counts")
    watch, dealt = Watch(), Dealt()
    torch.manual_seed(0)
    module = tiny_module(warmup=None, advantage=create("advantage", "group_norm"))
    trainer = tiny_trainer(folder, UPDATES, callbacks=[watch, dealt, PhaseProfile()])
    trainer.fit(module, datamodule=tiny_data(validation={}))
    data = json.loads((folder / "profile.json").read_text())
    return {row["phase"]: row for row in data["phases"]}, watch, dealt


def test_tokens_of_the_engine(profiled: tuple[dict[str, Any], Watch, Dealt]) -> None:
    phases, watch, _ = profiled
    rows = [each for rollouts in watch.rollouts for each in zip(*lengths(rollouts), strict=True)]
    prompts = sum(int(rollouts.prompts.lengths().sum()) for rollouts in watch.rollouts)
    assert phases["prefill"]["tokens"] == prompts, "each prompt once"
    # The first token of a row follows from its prompt, and its last one is not run.
    assert phases["decode"]["tokens"] == sum(steps - 1 for _, _, steps in rows)
    assert phases["decode"]["padding"] == phases["decode"]["duplicated"] == 0


def test_tokens_of_the_passes(profiled: tuple[dict[str, Any], Watch, Dealt]) -> None:
    phases, _, dealt = profiled
    trained = {"tokens": 0, "silent": 0}
    scored = {"tokens": 0, "silent": 0}
    old = {"tokens": 0, "silent": 0}
    left = UPDATES
    for buffer in dealt.buffers:
        steps = buffer.rollouts.row_S
        loud = [bool((buffer.advantages_S[steps == row] != 0).any()) for row in range(len(buffer.rollouts))]
        seen: set[int] = set()
        for number, plan in enumerate(buffer.plans):
            for part in plan.micro_batches:
                rows = part.tolist()
                counts = passed(buffer.rollouts, rows, loud)
                if left > 0:
                    trained = {name: trained[name] + counts[name] for name in trained}
                if not seen.issuperset(rows):
                    scored = {name: scored[name] + counts[name] for name in scored}
                    if number > 0:  # what the first update runs is kept from there
                        old = {name: old[name] + counts[name] for name in old}
                seen |= set(rows)
            left -= 1
    assert left < 0 < trained["silent"], "the last rollout is not trained to its end, and some rows have no signal"
    for name in ("forward", "backward"):
        assert phases[name]["tokens"] == trained["tokens"], name
    assert 0 < old["tokens"] < scored["tokens"]
    assert phases["reference_log_probs"]["tokens"] == scored["tokens"]
    assert phases["old_log_probs"]["tokens"] == old["tokens"]
    for name, counts in {"forward": trained, "backward": trained, "old_log_probs": old}.items():
        positions = phases[name]["tokens"] / (1 - phases[name]["padding"])
        assert phases[name]["zero_signal"] * positions == pytest.approx(counts["silent"]), name


def test_backward_takes_twice_the_operations(profiled: tuple[dict[str, Any], Watch, Dealt]) -> None:
    phases, *_ = profiled
    forward = phases["forward"]["gflop"] + phases["head"]["gflop"]
    assert phases["backward"]["gflop"] == pytest.approx(2 * forward, rel=1e-12)


@pytest.mark.slow
@pytest.mark.multiprocess
def test_two_ranks_run_the_tokens_of_one(tmp_path: Path) -> None:
    tokens = {}
    for ranks in (1, 2):
        words = [str(TESTS / "helpers" / "profiled_rank.py"), str(tmp_path / str(ranks)), str(ranks)]
        for done in run_ranks(words, rank_variables(ranks), seconds=120):
            assert done.returncode == 0, done.stderr[-2000:]
        data = json.loads((tmp_path / str(ranks) / "profile.json").read_text())
        tokens[ranks] = {row["phase"]: row["tokens"] for row in data["phases"]}
    for name in ("prefill", "decode", "evaluation"):
        assert tokens[2][name] == tokens[1][name], name


def test_every_phase_occurs(profiled: tuple[dict[str, Any], Watch, Dealt], tmp_path: Path) -> None:
    save = ModelCheckpoint(tmp_path / "kept", every_n_train_steps=2, save_on_train_epoch_end=False)
    trainer = tiny_trainer(tmp_path, 4, callbacks=[PhaseProfile(), save])
    trainer.fit(tiny_module(loss=create("loss", "clip_cov")), datamodule=tiny_data(validate_every=2))
    data = json.loads((tmp_path / "profile.json").read_text())
    found = {row["phase"] for row in data["phases"]} | profiled[0].keys()
    assert found == {*profiling.PHASES, "all"}
