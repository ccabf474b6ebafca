from __future__ import annotations

import re
from io import StringIO
from pathlib import Path

import torch
from lightning.pytorch import Callback
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from rich.console import Console

from grpo_lightning.callbacks.metric_logger import MetricLogger
from grpo_lightning.callbacks.run_report import RunReport
from grpo_lightning.callbacks.sample_log import SampleLog
from helpers.run_reports import ReportingModule, make_trainer


def report() -> RunReport:
    callback = RunReport()
    callback.console = Console(file=StringIO(), width=80)
    return callback


def text(callback: RunReport) -> str:
    return callback.console.file.getvalue()  # type: ignore[union-attr, attr-defined, no-any-return]


def cells(callback: RunReport, name: str) -> list[str]:
    (line,) = [line for line in text(callback).splitlines() if name in line and "│" in line]
    return [cell.strip() for cell in line.strip("│").split("│")]


def test_validation_before_and_after(tmp_path: Path) -> None:
    module, callback = ReportingModule(micro_batches=1, validates=True, baseline=True), report()
    make_trainer(tmp_path, module, [callback], max_steps=6, validate_every=2).fit(module)
    assert cells(callback, "held_out") == ["held_out accuracy", "0.250 (update 0)", "0.625 (update 6)"]
    assert "mean reward" not in text(callback)


def test_rewards_before_and_after_where_nothing_validates(tmp_path: Path) -> None:
    module, callback = ReportingModule(), report()
    make_trainer(tmp_path, module, [callback], max_steps=7).fit(module)
    # Rollout r has mean reward 0.6125 + r: r = 0 ... 4 and r = 2 ... 6.
    _, before, after = cells(callback, "mean reward")
    assert re.fullmatch(r"2\.61[23] \(first 5 rollouts\)", before)
    assert re.fullmatch(r"4\.61[23] \(last 5 rollouts\)", after)


def test_times_files_and_next_commands(tmp_path: Path) -> None:
    folder = tmp_path / ("a" * 60)  # wider than the console, yet in one piece
    module, callback, logger = ReportingModule(warmup=1, validates=True), report(), CSVLogger(folder)
    best = ModelCheckpoint(folder / "best", monitor="reward/mean", every_n_train_steps=1)
    last = ModelCheckpoint(folder / "last", every_n_train_steps=1)
    callbacks: list[Callback] = [MetricLogger(), SampleLog(), callback, best, last]
    options = {"loggers": [logger], "validate_every": 3, "checkpoints": True}
    make_trainer(folder, module, callbacks, max_steps=3, **options).fit(module)  # type: ignore[arg-type]
    shown = text(callback)
    for phase in (
        "generate 1.0 s",
        "reward 0.5 s",
        "score 0.2 s",
        "warm-up 0.5 s",
        "update 4.0 s",
        "validation",
        "other",
    ):
        assert phase in shown
    named = dict(re.findall(r"(run folder|metrics|samples|best checkpoint|last checkpoint) +(/\S+)", shown))
    assert named == {
        "run folder": logger.log_dir,
        "metrics": f"{logger.log_dir}/metrics.csv",
        "samples": f"{logger.log_dir}/samples",
        "best checkpoint": best.best_model_path,
        "last checkpoint": last.best_model_path,
    }
    assert "python -m grpo_lightning test" in shown
    assert "python -m grpo_lightning predict" in shown


def test_nothing_but_a_trainer(tmp_path: Path) -> None:
    module, callback = ReportingModule(warmup=5), report()
    make_trainer(tmp_path, module, [callback], max_steps=2).fit(module)
    assert str(tmp_path) in text(callback)
    assert "before and after" not in text(callback)


def test_evaluation_prints_every_metric(tmp_path: Path) -> None:
    module, callback = ReportingModule(validates=True), report()
    trainer = make_trainer(tmp_path, module, [callback], max_steps=1)
    trainer.validate(module, verbose=False)
    assert cells(callback, "accuracy") == ["accuracy", "0.25"]
    assert cells(callback, "prompts") == ["prompts", "16"]
    callback.console = Console(file=StringIO(), width=80)
    trainer.test(module, verbose=False)
    assert cells(callback, "pass@2") == ["pass@2", "0.875"]
    assert text(callback).startswith("test")


def test_a_resumed_run_reports_the_whole(tmp_path: Path) -> None:
    checkpoint = ModelCheckpoint(tmp_path, every_n_train_steps=2)
    module = ReportingModule(validates=True)
    trainer = make_trainer(tmp_path, module, [report(), checkpoint], max_steps=2, validate_every=1, checkpoints=True)
    trainer.fit(module)
    saved = torch.load(checkpoint.best_model_path, weights_only=True)
    assert saved["callbacks"]["RunReport"]["history"]["first"] == {"held_out accuracy": [1.0, 0.25]}

    module, callback = ReportingModule(validates=True), report()
    module.evaluations = 5
    trainer = make_trainer(tmp_path, module, [callback], max_steps=4, validate_every=1)
    trainer.fit(module, ckpt_path=checkpoint.best_model_path)
    first, last = cells(callback, "held_out")[1:]
    assert first == "0.250 (update 1)"
    assert last.endswith("(update 4)")
    assert "update 8.0 s" in text(callback)
