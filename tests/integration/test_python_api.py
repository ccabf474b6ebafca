"""The library from Python: twenty lines, also where an event loop is running already, as in a notebook."""

from __future__ import annotations

import asyncio
from pathlib import Path

import torch

from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.function import FunctionReward
from helpers.tiny_runs import tiny_data, tiny_module, tiny_trainer, weights


async def slow_match(completions: list[str], answer: list[str]) -> list[float]:
    """Share of right digits, after a wait."""
    await asyncio.sleep(0.01)
    return [
        sum(a == b for a, b in zip(text, right, strict=False)) / 3
        for text, right in zip(completions, answer, strict=True)
    ]


def fit(folder: Path) -> torch.Tensor:
    torch.manual_seed(0)
    module = tiny_module(rewards=[RewardEntry(reward=FunctionReward(function=slow_match))])
    trainer = tiny_trainer(folder, 4)
    trainer.fit(module, datamodule=tiny_data())
    assert trainer.global_step == 4
    return weights(module)


def test_fits_inside_a_running_event_loop_as_outside(tmp_path: Path) -> None:
    outside = fit(tmp_path)

    async def notebook() -> torch.Tensor:
        asyncio.get_running_loop()
        return fit(tmp_path)

    assert torch.equal(asyncio.run(notebook()), outside)


def test_validates_and_predicts_after_fit(tmp_path: Path) -> None:
    module, data = tiny_module(), tiny_data()
    trainer = tiny_trainer(tmp_path, 3)
    trainer.fit(module, datamodule=data)
    trainer.validate(module, datamodule=data, verbose=False)
    (report,) = module.evaluation_reports
    assert (report.dataset, report.prompts, report.samples) == ("held_out", 6, 2)
    assert 0.0 <= report.metrics["accuracy"] <= report.metrics["pass@2"] <= 1.0
    rows = [row for batch in trainer.predict(module, datamodule=data) for row in batch]
    assert len(rows) == 12
    assert {"prompt", "completion", "reward", "answer", "log_prob"} <= set(rows[0])
