"""Callbacks with one fault each: every one fails its own check and no other."""

from __future__ import annotations

import os
import sys
from fractions import Fraction
from typing import Any

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer

from grpo_lightning.callbacks.base import ReportCallback
from grpo_lightning.reports import RolloutReport, UpdateReport
from grpo_lightning.testing import callbacks
from helpers.failures import assert_fails_only, failures


class Counts(ReportCallback):
    """Counts updates, over resumes: a sound one."""

    name = "counts"

    def __init__(self) -> None:
        self.updates = 0

    def on_update(self, trainer: Trainer, pl_module: LightningModule, report: UpdateReport) -> None:
        self.updates += 1

    def state_dict(self) -> dict[str, Any]:
        return {"updates": self.updates}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.updates = state_dict["updates"]


class FirstSample(Counts):
    """Takes for granted that there are samples."""

    name = "first_sample"

    def on_rollout(self, trainer: Trainer, pl_module: LightningModule, report: RolloutReport) -> None:
        self.sample = report.samples[0]


class HatesLoggers(Counts):
    """Takes a logger for one that has what only few have."""

    name = "hates_loggers"

    def on_update(self, trainer: Trainer, pl_module: LightningModule, report: UpdateReport) -> None:
        for logger in trainer.loggers:
            logger.experiment.watch(pl_module)


class AddsMetric(Counts):
    """Adds to the metrics of others."""

    name = "adds_metric"

    def on_update(self, trainer: Trainer, pl_module: LightningModule, report: UpdateReport) -> None:
        report.metrics["seen"] = 1.0


class Trains(Counts):
    """Takes a step of its own."""

    name = "trains"

    def on_update(self, trainer: Trainer, pl_module: LightningModule, report: UpdateReport) -> None:
        with torch.no_grad():
            for parameter in pl_module.parameters():
                parameter.mul_(0.5)


class Shouts(Counts):
    """Prints on every rank."""

    name = "shouts"

    def on_update(self, trainer: Trainer, pl_module: LightningModule, report: UpdateReport) -> None:
        sys.stdout.write(f"update {report.update}\n")


class KeepsFraction(Counts):
    """Keeps a fraction in its state once a run has begun."""

    name = "keeps_fraction"

    def state_dict(self) -> dict[str, Any]:
        return {"share": Fraction(1, self.updates)} if self.updates else {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.updates = 0


class SetsVariable(Counts):
    """Sets an environment variable at every rollout."""

    name = "sets_variable"

    def on_rollout(self, trainer: Trainer, pl_module: LightningModule, report: RolloutReport) -> None:
        os.environ["GRPO_LIGHTNING_TEST_OF_THE_KIT"] = str(report.rollout)


BROKEN = [
    (FirstSample, "survives_a_run", "It raised IndexError"),
    (HatesLoggers, "survives_a_run_with_a_logger", "It raised AttributeError"),
    (AddsMetric, "changes_no_report", "copy what you want to change"),
    (Trains, "leaves_training_alone", "the trained weight is"),
    (Shouts, "writes_on_the_first_rank_only", "return early unless trainer.is_global_zero"),
    (KeepsFraction, "goes_on_from_its_state", "write what you keep as such in state_dict"),
    (SetsVariable, "leaves_the_process_alone", "a run that reports to it changed the environment variables"),
]


@pytest.mark.parametrize(("component", "check", "teaches"), BROKEN, ids=lambda each: getattr(each, "__name__", None))
def test_fails_only_its_check(component: type, check: str, teaches: str) -> None:
    assert_fails_only(component, check, teaches)


def test_every_check_has_a_component_that_fails_it() -> None:
    assert {check for _, check, _ in BROKEN} == {check.name for check in callbacks.CHECKS}


def test_a_good_one_passes() -> None:
    assert failures(Counts) == {}
