from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from grpo_lightning_reasoning_gym.difficulty import Difficulty
from grpo_lightning_reasoning_gym.level_log import CurriculumLevel

from grpo_lightning.reports import UpdateReport
from grpo_lightning.testing.suites import CallbackChecks


class TestConforms(CallbackChecks):
    component = CurriculumLevel


class Kept:
    """A logger that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, dict[str, float]]] = []

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        self.lines.append((step, metrics))

    def save(self) -> None:
        """Nothing to write."""


def trainer(curriculum: Any, logger: Kept) -> Any:
    data = SimpleNamespace(curriculum=curriculum)
    return SimpleNamespace(datamodule=data, callback_metrics={}, loggers=[logger], is_global_zero=True)


def report(callback: CurriculumLevel, where: Any, updates: list[int]) -> None:
    callback.on_rollout(where, None, None)  # type: ignore[arg-type]
    for update in updates:
        callback.on_update(where, None, UpdateReport(stage="grpo", update=update, rollout=0))  # type: ignore[arg-type]


def test_level_and_mean_stand_at_the_first_update_of_a_rollout() -> None:
    curriculum, logger = Difficulty(start=2), Kept()
    curriculum.recent = [0.5, 1.0]
    where = trainer(curriculum, logger)
    report(CurriculumLevel(), where, [7, 8])
    assert logger.lines == [(7, {"curriculum/level": 2.0, "curriculum/mean": 0.75})]
    assert where.callback_metrics["curriculum/level"].item() == 2.0


@pytest.mark.parametrize("curriculum", [None, object()])
def test_a_curriculum_without_levels_logs_nothing(curriculum: Any) -> None:
    logger = Kept()
    report(CurriculumLevel(), trainer(curriculum, logger), [1])
    assert logger.lines == []
