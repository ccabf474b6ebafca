from __future__ import annotations

from pathlib import Path

import torch
import wandb
from lightning.pytorch.loggers import CSVLogger, WandbLogger

from grpo_lightning.callbacks.wandb_media import histograms, log_table, wandb_loggers
from helpers.run_reports import ReportingModule, make_trainer
from helpers.wandb_offline import read_offline_run


def test_only_wandb_loggers_are_found(tmp_path: Path) -> None:
    loggers = [CSVLogger(tmp_path), WandbLogger(save_dir=tmp_path, offline=True)]
    trainer = make_trainer(tmp_path, ReportingModule(), [], max_steps=1, loggers=loggers)
    assert wandb_loggers(trainer) == loggers[1:]


def test_histogram_counts_every_value() -> None:
    found = histograms({"a": torch.tensor([1.0, 1.0, 3.0])})["a"]
    assert sum(found.histogram) == 3
    assert (found.bins[0], found.bins[-1]) == (1.0, 3.0)


def test_rows_with_different_columns_make_one_table(wandb_folder: Path) -> None:
    logger = WandbLogger(project="tests", save_dir=wandb_folder, offline=True)
    trainer = make_trainer(wandb_folder, ReportingModule(), [], max_steps=1, loggers=[logger])
    log_table(trainer, "things", [{"a": 1, "b": None}, {"a": 2, "c": "x"}], step=7)
    wandb.finish()
    run = read_offline_run(wandb_folder)
    assert run.table(run.steps("things")[7]) == [{"a": 1, "b": None, "c": None}, {"a": 2, "b": None, "c": "x"}]


def test_a_table_without_wandb_goes_nowhere(tmp_path: Path) -> None:
    log_table(make_trainer(tmp_path, ReportingModule(), [], max_steps=1), "things", [{"a": 1}], step=0)
