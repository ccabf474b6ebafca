from __future__ import annotations

import csv
from pathlib import Path

import pytest
import wandb
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger, WandbLogger

from grpo_lightning.callbacks.metric_logger import MetricLogger
from grpo_lightning.callbacks.rollout_metrics import rollout_metrics
from helpers.run_reports import ReportingModule, make_trainer, rollout_report
from helpers.wandb_offline import read_offline_run


def read(logger: CSVLogger) -> list[dict[str, float]]:
    with (Path(logger.log_dir) / "metrics.csv").open() as file:
        return [{key: float(value) for key, value in row.items() if value} for row in csv.DictReader(file)]


def test_a_row_an_update_with_the_rollout_in_its_first(tmp_path: Path) -> None:
    module, logger = ReportingModule(warmup=1, updates_per_rollout=2), CSVLogger(tmp_path)
    make_trainer(tmp_path, module, [MetricLogger()], max_steps=4, loggers=[logger]).fit(module)
    rows = read(logger)
    assert [row["step"] for row in rows] == [1, 2, 3, 4]
    assert rows[0] == {"step": 1, "warmup/loss": 2.0, "time/update": 0.5}
    update = {"train/loss": 1.0, "policy/kl": 0.125, "policy/entropy": 1.5, "time/update": 2.0}
    assert rows[1] == pytest.approx({"step": 2, **update, **rollout_metrics(rollout_report())})
    assert rows[2] == {**update, "step": 3, "train/loss": 2.0}
    assert rows[3]["reward/mean"] == pytest.approx(4.9 / 8 + 1)


def test_a_row_is_on_the_disk_as_soon_as_it_is_logged(tmp_path: Path) -> None:
    module, logger = ReportingModule(), CSVLogger(tmp_path)
    module.on_train_batch_start = lambda batch, index: rows.append(  # type: ignore[method-assign]
        len(read(logger)) if (Path(logger.log_dir) / "metrics.csv").exists() else 0
    )
    rows: list[int] = []
    make_trainer(tmp_path, module, [MetricLogger()], max_steps=3, loggers=[logger]).fit(module)
    assert rows == [0, 0, 1, 1, 2, 2]


def test_every_logger_gets_it_and_none_is_fine(tmp_path: Path) -> None:
    loggers = [CSVLogger(tmp_path, name="a"), CSVLogger(tmp_path, name="b")]
    module = ReportingModule()
    make_trainer(tmp_path, module, [MetricLogger()], max_steps=2, loggers=loggers).fit(module)
    assert read(loggers[0]) == read(loggers[1])
    module = ReportingModule()
    make_trainer(tmp_path, module, [MetricLogger()], max_steps=2).fit(module)


def test_lightning_can_monitor(tmp_path: Path) -> None:
    module = ReportingModule()
    checkpoint = ModelCheckpoint(tmp_path, monitor="reward/mean", mode="max", every_n_train_steps=1)
    callbacks = [checkpoint, MetricLogger()]
    trainer = make_trainer(tmp_path, module, callbacks, max_steps=3, checkpoints=True)
    trainer.fit(module)
    assert float(trainer.callback_metrics["reward/mean"]) == pytest.approx(4.9 / 8 + 2)
    assert checkpoint.best_model_score is not None
    assert float(checkpoint.best_model_score) == pytest.approx(4.9 / 8 + 2)
    assert "step=3" in checkpoint.best_model_path


def test_early_stopping_can_monitor(tmp_path: Path) -> None:
    module = ReportingModule(validates=True)
    stopping = EarlyStopping("policy/entropy", patience=1)  # constant: stops at the second look after the first
    trainer = make_trainer(tmp_path, module, [MetricLogger(), stopping], max_steps=10, validate_every=1)
    trainer.fit(module)
    assert trainer.global_step == 2


def test_offline_wandb_file_holds_it(wandb_folder: Path) -> None:
    module = ReportingModule()
    logger = WandbLogger(project="tests", save_dir=wandb_folder, offline=True)
    make_trainer(wandb_folder, module, [MetricLogger()], max_steps=3, loggers=[logger]).fit(module)
    logger.experiment.config.update({"group_size": 4})
    wandb.finish()
    run = read_offline_run(wandb_folder)
    assert run.config["group_size"] == 4
    assert "trainer/global_step" in run.metrics
    assert run.steps("train/loss") == {1: 0.0, 2: 1.0, 3: 2.0}
    assert run.summary["reward/mean"] == pytest.approx(4.9 / 8 + 2)
    row = next(row for row in run.history if row.get("trainer/global_step") == 1)
    for key, value in rollout_metrics(rollout_report()).items():
        assert row[key] == pytest.approx(value), key
    lengths = row["completion/length_histogram"]
    assert lengths["_type"] == "histogram"
    assert sum(lengths["values"]) == 10
    assert (lengths["bins"][0], lengths["bins"][-1]) == (0, 10)
    assert sum(row["group/reward_mean_histogram"]["values"]) == 3
    assert sum(row["group/reward_variance_histogram"]["values"]) == 2
