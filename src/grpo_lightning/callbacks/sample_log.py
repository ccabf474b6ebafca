"""Keeps some of the completions, for people to read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.trainer.states import TrainerFn
from typing_extensions import override

from grpo_lightning.callbacks.base import ReportCallback
from grpo_lightning.callbacks.run_files import samples_file
from grpo_lightning.callbacks.wandb_media import log_table
from grpo_lightning.errors import require_range
from grpo_lightning.reports import EvaluationReport, RolloutReport, Sample


class SampleLog(ReportCallback):
    """Writes sampled groups to a file and to wandb.

    Training samples go to ``samples/train.jsonl`` in the run folder and to the wandb table ``samples/train``; those of
    evaluations to ``samples/validation.jsonl`` or ``samples/test.jsonl`` and to tables of these names. A line of a file
    is one completion with its prompt, its score by each reward, its reward and its advantage.

    Args:
        every: Training samples are kept of every so many rollouts, the first included.
    """

    name = "sample_log"

    def __init__(self, *, every: int = 10) -> None:
        require_range("every", every, low=1)
        self.every = every

    @override
    def on_rollout(self, trainer: Trainer, pl_module: LightningModule, report: RolloutReport) -> None:
        if report.rollout % self.every == 0:
            where = {"rollout": report.rollout, "update": report.update}
            self._keep(trainer, "train", [(where, sample) for sample in report.samples], report.update)

    @override
    def on_evaluation(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        stage: str,
        update: int,
        reports: Sequence[EvaluationReport],
    ) -> None:
        when = {"update": update} if trainer.state.fn == TrainerFn.FITTING else {}
        rows = [({"dataset": report.dataset, **when}, sample) for report in reports for sample in report.rows]
        self._keep(trainer, stage, rows, update)

    def _keep(
        self, trainer: Trainer, stage: str, samples: Sequence[tuple[Mapping[str, Any], Sample]], update: int
    ) -> None:
        if not samples or not trainer.is_global_zero:
            return
        path = samples_file(trainer, stage)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            for where, sample in samples:
                file.write(json.dumps(sample_record(where, sample), ensure_ascii=False) + "\n")
        log_table(trainer, f"samples/{stage}", [_table_row(where, sample) for where, sample in samples], update)


def sample_record(where: Mapping[str, Any], sample: Sample) -> dict[str, Any]:
    """A sample as plain values for JSON, after what says ``where`` it comes from."""
    return {
        **where,
        "group": sample.group,
        "member": sample.member,
        "prompt": sample.prompt,
        "turns": list(sample.turns),
        "components": dict(sample.components),
        "reward": sample.reward,
        "advantage": sample.advantage,
        "length": sample.length,
        "finish": sample.finish,
    }


def _table_row(where: Mapping[str, Any], sample: Sample) -> dict[str, Any]:
    """The same for a table: turns become one text, each component a column."""
    row = sample_record(where, sample)
    turns, components = row.pop("turns"), row.pop("components")
    tail = {key: row.pop(key) for key in ("reward", "advantage", "length", "finish")}
    scores = {f"reward/{name}": score for name, score in components.items()}
    return {**row, "completion": "\n".join(turns), **scores, **tail}
