"""A tiny run that reports to a callback as a real one does."""

from __future__ import annotations

import io
import logging
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.utilities.rank_zero import rank_zero_only
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import CSVLogger
from torch import Tensor, nn
from torch.utils.data import DataLoader

from grpo_lightning.reports import EvaluationReport, RolloutReport, Sample, UpdateReport
from grpo_lightning.testing.tables import UNEVEN, advantages_of, reward_table

UPDATES = 5
WARMUP = 2


@dataclass
class Run:
    """What is left of a run."""

    callback: Callback | None
    reports: list[Any]
    """Every report that was handed out, in order."""
    weight: Tensor
    """What was trained."""
    text: str
    """What was written to standard output and standard error."""
    files: list[str]
    """Files below its folder."""
    random_state: Tensor = field(default_factory=torch.get_rng_state)


def report_to(callback: Callback | None, *, loggers: bool = False, rank: int = 0) -> Run:
    """Fit with a warm-up, rollouts, updates and evaluations, then validate and test, in a temporary folder.

    Args:
        callback: Who is told; ``None`` for nobody.
        loggers: Whether there is a logger.
        rank: Rank that the trainer says it has.
    """
    with tempfile.TemporaryDirectory() as folder, _quiet() as text, _as_rank(rank):
        torch.manual_seed(0)
        module = _Reporting()
        trainer = (Trainer if rank == 0 else _OtherRank)(
            accelerator="cpu",
            devices=1,
            max_steps=UPDATES,
            max_epochs=-1,
            num_sanity_val_steps=0,
            val_check_interval=2,
            check_val_every_n_epoch=None,
            default_root_dir=folder,
            logger=[CSVLogger(folder)] if loggers else False,
            callbacks=[] if callback is None else [callback],
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(module)
        state = torch.get_rng_state()
        trainer.validate(module, verbose=False)
        trainer.test(module, verbose=False)
        files = sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*") if path.is_file())
    return Run(callback, module.handed_out, module.weight.detach().clone(), text.getvalue(), files, state)


def rollout_report(rollout: int) -> RolloutReport:
    """A rollout of uneven groups, some without signal, some rows dropped."""
    table = reward_table(UNEVEN)
    advantages_R = advantages_of(table)
    samples = [
        Sample(0, 0, "3 + 4 =", ["seven", "What?", "ünd 7\n"], {"one": 1.0, "other": None}, 1.0, 0.5, 4, "stop"),
        Sample(0, 1, "3 + 4 =", [""], {"one": None, "other": None}, None, 0.0, 1, "length"),
    ]
    return RolloutReport(
        rollout=rollout,
        update=WARMUP + rollout,
        table=table,
        advantages_R=advantages_R,
        keep_R=table.valid_R & (table.group_R != 4),
        run_R=table.valid_R & (table.group_R != 4) & (advantages_R != 0),
        compares=True,
        groups_redrawn=rollout,
        prompt_steps=30,
        sampled_steps=60,
        seconds={"generate": 0.5, "reward": 0.25, "score": 0.125, "collect": 1.0},
        samples=samples if rollout != 1 else [],
        reward_counts={"one": {"failures": float(rollout)}},
    )


def evaluation_report(number: int) -> EvaluationReport:
    """A validation whose accuracy rises."""
    sample = Sample(0, 0, "1 + 1 =", ["2"], {"one": 1.0}, 1.0, 0.0, 1, "stop")
    return EvaluationReport(
        "held_out", 16, 2, {"accuracy": 0.25 + 0.125 * number, "reward": 0.75, "pass@2": 0.875}, [sample]
    )


class _Reporting(LightningModule):
    """Trains one number and reports as the GRPO module does: a warm-up, then a rollout an update, and evaluations."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))
        self.evaluation_reports: list[EvaluationReport] = []
        self.handed_out: list[Any] = []
        self.updates = 0

    def training_step(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        update, self.updates = self.updates, self.updates + 1
        outputs: dict[str, Any] = {"loss": (self.weight**2).sum()}
        if update < WARMUP:
            metrics = {"warmup/loss": 2.0, "time/update": 0.5}
            outputs["update"] = UpdateReport("warmup", update + 1, -1, metrics)
        else:
            rollout = update - WARMUP
            if rollout == 0:
                outputs["evaluation"] = [evaluation_report(0)]
            outputs["rollout"] = rollout_report(rollout)
            metrics = {"train/loss": float(update), "policy/kl": 0.125, "policy/entropy": 1.5, "time/update": 2.0}
            outputs["update"] = UpdateReport("grpo", update + 1, rollout, metrics)
        self.handed_out += [outputs[name] for name in ("evaluation", "rollout", "update") if name in outputs]
        return outputs

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        """Nothing: an evaluation is reported as a whole."""

    def test_step(self, batch: Any, batch_idx: int) -> None:
        """Nothing."""

    def _evaluate(self) -> None:
        self.evaluation_reports = [evaluation_report(1)]
        self.handed_out.append(self.evaluation_reports)

    def on_validation_epoch_end(self) -> None:
        self._evaluate()

    def on_test_epoch_end(self) -> None:
        self._evaluate()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def train_dataloader(self) -> DataLoader[Tensor]:
        return DataLoader(torch.zeros(100, 1))  # type: ignore[arg-type]

    def val_dataloader(self) -> DataLoader[Tensor]:
        return DataLoader(torch.zeros(1, 1))  # type: ignore[arg-type]

    def test_dataloader(self) -> DataLoader[Tensor]:
        return DataLoader(torch.zeros(1, 1))  # type: ignore[arg-type]


class _OtherRank(Trainer):
    """One that says it is not the first rank."""

    @property
    def is_global_zero(self) -> bool:
        return False

    @property
    def global_rank(self) -> int:
        return 1


@contextmanager
def _quiet() -> Iterator[io.StringIO]:
    """Take what is written, and keep Lightning's remarks on a run this small to itself."""
    text = io.StringIO()
    names = ("lightning.pytorch", "lightning.fabric")
    levels = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        with redirect_stdout(text), redirect_stderr(text), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield text
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


@contextmanager
def _as_rank(rank: int) -> Iterator[None]:
    """Lightning's rank-zero functions take this process for that rank."""
    before = getattr(rank_zero_only, "rank", 0)
    rank_zero_only.rank = rank  # type: ignore[attr-defined]
    try:
        yield
    finally:
        rank_zero_only.rank = before  # type: ignore[attr-defined]
