from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import wandb
from lightning.pytorch.loggers import CSVLogger, WandbLogger

from grpo_lightning.callbacks.sample_log import SampleLog
from grpo_lightning.errors import ConfigError
from helpers.run_reports import ReportingModule, make_trainer
from helpers.wandb_offline import read_offline_run


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_every_nth_rollout_is_kept(tmp_path: Path) -> None:
    module, logger = ReportingModule(updates_per_rollout=2), CSVLogger(tmp_path)
    make_trainer(tmp_path, module, [SampleLog(every=2)], max_steps=10, loggers=[logger]).fit(module)
    rows = lines(Path(logger.log_dir) / "samples" / "train.jsonl")
    assert [(row["rollout"], row["update"], row["member"]) for row in rows] == [
        (0, 0, 0), (0, 0, 1), (2, 4, 0), (2, 4, 1), (4, 8, 0), (4, 8, 1)]  # fmt: skip
    assert rows[1] == {
        "rollout": 0,
        "update": 0,
        "group": 0,
        "member": 1,
        "prompt": "3 + 4 =",
        "turns": ["seven", "ünd 7"],
        "components": {"exact": None, "style": None},
        "reward": None,
        "advantage": -0.5,
        "length": 4,
        "finish": "stop",
    }


def test_evaluations_have_files_of_their_own(tmp_path: Path) -> None:
    module = ReportingModule(validates=True)
    trainer = make_trainer(tmp_path, module, [SampleLog()], max_steps=4, validate_every=2)
    trainer.fit(module)
    trainer.test(module, verbose=False)
    validation = lines(tmp_path / "samples" / "validation.jsonl")
    assert [(row["dataset"], row["update"]) for row in validation] == [("held_out", 2), ("held_out", 4)]
    (test,) = lines(tmp_path / "samples" / "test.jsonl")
    assert test["dataset"] == "held_out"
    assert "update" not in test
    assert {row["rollout"] for row in lines(tmp_path / "samples" / "train.jsonl")} == {0}


def test_tables_in_wandb(wandb_folder: Path) -> None:
    module = ReportingModule(validates=True)
    logger = WandbLogger(project="tests", save_dir=wandb_folder, offline=True)
    trainer = make_trainer(wandb_folder, module, [SampleLog(every=1)], max_steps=2, loggers=[logger], validate_every=2)
    trainer.fit(module)
    wandb.finish()
    run = read_offline_run(wandb_folder)
    tables = run.steps("samples/train")
    assert sorted(tables) == [0, 1]
    first, second = run.table(tables[0])
    assert first == {
        "rollout": 0,
        "update": 0,
        "group": 0,
        "member": 0,
        "prompt": "3 + 4 =",
        "completion": "seven\nünd 7",
        "reward/exact": 1.0,
        "reward/style": 0.5,
        "reward": 1.0,
        "advantage": -0.5,
        "length": 4,
        "finish": "stop",
    }
    assert (second["reward/exact"], second["reward"]) == (None, None)
    assert [row["dataset"] for row in run.table(run.steps("samples/validation")[2])] == ["held_out"]


def test_every_must_be_positive() -> None:
    with pytest.raises(ConfigError, match=r"^every: 0 "):
        SampleLog(every=0)
