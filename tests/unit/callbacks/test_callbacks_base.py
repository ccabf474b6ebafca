from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lightning.pytorch import LightningModule, Trainer
from typing_extensions import override

from grpo_lightning.callbacks.base import ReportCallback
from grpo_lightning.reports import EvaluationReport, RolloutReport, UpdateReport
from helpers.run_reports import ReportingModule, make_trainer


class Witness(ReportCallback):
    name = "witness"

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []

    @override
    def on_rollout(self, trainer: Trainer, pl_module: LightningModule, report: RolloutReport) -> None:
        self.seen.append(("rollout", report.rollout))

    @override
    def on_update(self, trainer: Trainer, pl_module: LightningModule, report: UpdateReport) -> None:
        self.seen.append((report.stage, report.update))

    @override
    def on_evaluation(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        stage: str,
        update: int,
        reports: Sequence[EvaluationReport],
    ) -> None:
        assert [report.dataset for report in reports] == ["held_out"]
        self.seen.append((stage, update))


def test_reports_arrive_in_order(tmp_path: Path) -> None:
    module, witness = ReportingModule(warmup=1, updates_per_rollout=2, validates=True, baseline=True), Witness()
    trainer = make_trainer(tmp_path, module, [witness], max_steps=4, validate_every=2)
    trainer.fit(module)
    trainer.test(module, verbose=False)
    assert witness.seen == [
        ("warmup", 1),
        ("validation", 1),
        ("rollout", 0),
        ("grpo", 2),
        ("validation", 2),
        ("grpo", 3),
        ("rollout", 1),
        ("grpo", 4),
        ("validation", 4),
        ("test", 4),
    ]


def test_other_outputs_are_ignored(tmp_path: Path) -> None:
    module, witness = ReportingModule(), Witness()
    trainer = make_trainer(tmp_path, module, [witness], max_steps=1)
    for outputs in (None, {"loss": 1.0}, {"rollout": None, "update": 3}):
        witness.on_train_batch_end(trainer, module, outputs, None, 0)
    assert witness.seen == []


def test_a_module_without_evaluation_reports_is_no_error(tmp_path: Path) -> None:
    module, witness = ReportingModule(), Witness()
    del module.evaluation_reports
    witness.on_validation_end(make_trainer(tmp_path, module, [witness], max_steps=1), module)
    assert witness.seen == []
