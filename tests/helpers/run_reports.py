"""Reports of made-up rollouts and evaluations, and a module that hands them out as a run would."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import Logger
from torch import Tensor, nn
from torch.utils.data import DataLoader

from grpo_lightning.reports import EvaluationReport, RolloutReport, Sample, UpdateReport
from grpo_lightning.types import RolloutTable

NAN = float("nan")


def rollout_report(rollout: int = 0, update: int = 0, *, shift: float = 0.0) -> RolloutReport:
    """Three groups: one that trains, a unanimous one, and a dropped one of a valid row, an abstention and an empty row.

    ``shift`` is added to every reward.
    """
    rewards_R = torch.tensor([1, 0, 1, 0, 0.3, 0.3, 0.3, 2, NAN, 1], dtype=torch.float64) + shift
    lengths_R = torch.tensor([2, 4, 6, 8, 1, 1, 3, 5, 10, 0])
    group_R = torch.tensor([0, 0, 0, 0, 1, 1, 1, 2, 2, 2])
    table = RolloutTable(
        group_R=group_R,
        prompt_R=group_R + 40,
        trajectory_R=torch.arange(10),
        member_R=torch.tensor([0, 1, 2, 3, 0, 1, 2, 0, 1, 2]),
        rewards_R=rewards_R,
        valid_R=~rewards_R.isnan() & (lengths_R > 0),
        lengths_R=lengths_R,
        turns_R=torch.tensor([1] * 8 + [2, 2]),
        finish_R=torch.tensor([0, 0, 0, 1, 0, 0, 0, 0, 1, 0]),
        components={
            "exact": torch.tensor([1, 0, 1, 0, NAN, NAN, NAN, 1, NAN, 0], dtype=torch.float64),
            "style": torch.tensor([0.5] + [NAN] * 9, dtype=torch.float64),
        },
    )
    return RolloutReport(
        rollout=rollout,
        update=update,
        table=table,
        advantages_R=torch.tensor([1, -1, 1, -1, 0, 0, 0, 0, 0, 0], dtype=torch.float64),
        keep_R=group_R < 2,
        run_R=group_R < 1,
        compares=True,
        groups_redrawn=5,
        prompt_steps=30,
        sampled_steps=60,
        staleness=3,
        seconds={"generate": 0.5, "reward": 0.25, "score": 0.125, "collect": 1.0},
        samples=[sample(member=0), sample(member=1, reward=None)],
        kl_R=torch.arange(10, dtype=torch.float64) / 8,
        reward_counts={
            "exact": {"failures": 2.0, "failures/timeout": 2.0, "retries": 1.0, "seconds": 0.25},
            "style": {"failures": 0.0, "seconds": 0.0},
        },
    )


def sample(*, member: int = 0, reward: float | None = 1.0) -> Sample:
    """A row of two turns."""
    components = {"exact": reward, "style": None if member else 0.5}
    return Sample(0, member, "3 + 4 =", ["seven", "ünd 7"], components, reward, -0.5, 4, "stop")


class ReportingModule(LightningModule):
    """Trains one number, and reports as the GRPO module does.

    Args:
        micro_batches: Items of an update.
        updates_per_rollout: Updates of a rollout.
        warmup: Updates before the first rollout.
        validates: Whether it evaluates a data set, ``held_out``, with an accuracy that rises by 0.125 each time.
        baseline: Whether it evaluates it before the first rollout, too.
    """

    def __init__(
        self,
        *,
        micro_batches: int = 2,
        updates_per_rollout: int = 1,
        warmup: int = 0,
        validates: bool = False,
        baseline: bool = False,
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))
        self.micro_batches, self.updates_per_rollout, self.warmup = micro_batches, updates_per_rollout, warmup
        self.validates, self.baseline = validates, baseline
        self.evaluation_reports: list[EvaluationReport] = []
        self.items = self.evaluations = 0

    def training_step(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        update, micro = divmod(self.items, self.micro_batches)
        self.items += 1
        outputs: dict[str, Any] = {"loss": (self.weight**2).sum()}
        rollout, inner = divmod(update - self.warmup, self.updates_per_rollout)
        if update >= self.warmup and inner == 0 and micro == 0:
            if rollout == 0 and self.baseline:
                outputs["evaluation"] = self.evaluate()
            outputs["rollout"] = rollout_report(rollout, update, shift=float(rollout))
        if micro == self.micro_batches - 1:
            outputs["update"] = self.report(update, rollout)
        return outputs

    def report(self, update: int, rollout: int) -> UpdateReport:
        if update < self.warmup:
            return UpdateReport("warmup", update + 1, -1, {"warmup/loss": 2.0, "time/update": 0.5})
        metrics = {"train/loss": float(update), "policy/kl": 0.125, "policy/entropy": 1.5, "time/update": 2.0}
        return UpdateReport("grpo", update + 1, rollout, metrics)

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        pass

    def test_step(self, batch: Any, batch_idx: int) -> None:
        pass

    def evaluate(self) -> list[EvaluationReport]:
        metrics = {"accuracy": 0.25 + 0.125 * self.evaluations, "reward": 0.75, "pass@2": 0.875}
        self.evaluations += 1
        return [EvaluationReport("held_out", 16, 2, metrics, [sample()])]

    def on_validation_epoch_end(self) -> None:
        if self.validates:
            self.evaluation_reports = self.evaluate()

    def on_test_epoch_end(self) -> None:
        self.evaluation_reports = self.evaluate()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def train_dataloader(self) -> DataLoader[Tensor]:
        return DataLoader(torch.zeros(1000, 1))  # type: ignore[arg-type]

    def val_dataloader(self) -> list[DataLoader[Tensor]]:
        return [DataLoader(torch.zeros(1, 1))] if self.validates else []  # type: ignore[arg-type]

    def test_dataloader(self) -> DataLoader[Tensor]:
        return DataLoader(torch.zeros(1, 1))  # type: ignore[arg-type]


def make_trainer(
    folder: Path,
    module: ReportingModule,
    callbacks: Sequence[Callback],
    *,
    max_steps: int,
    loggers: Sequence[Logger] = (),
    validate_every: int | None = None,
    checkpoints: bool = False,
) -> Trainer:
    """A quiet CPU trainer for ``module``; ``validate_every`` counts updates."""
    return Trainer(
        accelerator="cpu",
        devices=1,
        max_steps=max_steps,
        max_epochs=-1,
        accumulate_grad_batches=module.micro_batches,
        val_check_interval=validate_every * module.micro_batches if validate_every else None,
        check_val_every_n_epoch=None,
        num_sanity_val_steps=0,
        default_root_dir=folder,
        logger=list(loggers) or False,
        callbacks=list(callbacks),
        enable_checkpointing=checkpoints,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
