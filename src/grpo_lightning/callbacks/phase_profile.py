"""A table of where a run's time, memory and operations went, written to its folder."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor
from typing_extensions import override

from grpo_lightning import profiling
from grpo_lightning.callbacks.base import ReportCallback
from grpo_lightning.callbacks.run_files import profile_file
from grpo_lightning.profiling.memory import memory_probe
from grpo_lightning.profiling.table import PhaseTable
from grpo_lightning.reports import RolloutReport, UpdateReport


class PhaseProfile(ReportCallback):
    """Measures the phases of ``fit`` and writes ``profile.md`` and ``profile.json`` to the run folder.

    From the first work item of this process to the end of training; ``docs/profiling.md`` defines the phases and columns.
    No number that is trained on depends on it. Several ranks meet at the end, and rank 0 writes; a run of one rank
    that is stopped writes what it has.
    """

    name = "phase_profile"

    def __init__(self) -> None:
        self._profiler: profiling.Profiler | None = None
        self._save: Callable[..., Any] | None = None
        self._updates = self._rollouts = 0
        self._rows = {"sampled": 0, "not_selected": 0, "not_run": 0, "run": 0}

    @override
    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        if self._profiler is not None:
            return
        device = pl_module.device
        wait = partial(torch.cuda.synchronize, device) if device.type == "cuda" else None
        self._profiler = profiling.Profiler(memory=memory_probe(device), wait=wait)
        self._save = trainer.save_checkpoint
        trainer.save_checkpoint = partial(_saved, self._save)  # type: ignore[method-assign]
        profiling.start(self._profiler)

    @override
    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        profiling.begin(profiling.BACKWARD)

    @override
    def on_after_backward(self, trainer: Trainer, pl_module: LightningModule) -> None:
        profiling.end(profiling.BACKWARD)

    @override
    def on_rollout(self, trainer: Trainer, pl_module: LightningModule, report: RolloutReport) -> None:
        self._rollouts += 1
        self._rows["sampled"] += len(report.keep_R)
        self._rows["not_selected"] += int((~report.keep_R).sum())
        self._rows["not_run"] += int((report.keep_R & ~report.run_R).sum())
        self._rows["run"] += int(report.run_R.sum())

    @override
    def on_update(self, trainer: Trainer, pl_module: LightningModule, report: UpdateReport) -> None:
        self._updates += 1

    @override
    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._finish(trainer, pl_module)

    @override
    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        if trainer.world_size == 1:  # another rank might never come
            self._finish(trainer, pl_module)

    @override
    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self._stop(trainer)

    def _stop(self, trainer: Trainer) -> profiling.Profiler | None:
        profiler, self._profiler = self._profiler, None
        if profiler is not None:
            profiling.stop()
            trainer.save_checkpoint = self._save  # type: ignore[method-assign, assignment]
        return profiler

    def _finish(self, trainer: Trainer, pl_module: LightningModule) -> None:
        profiler = self._stop(trainer)
        if profiler is None:
            return
        ranks = _of_all_ranks(profiler.records)
        if not trainer.is_global_zero:
            return
        device = pl_module.device
        name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or device.type
        about = {
            "updates": self._updates,
            "rollouts": self._rollouts,
            "ranks": len(ranks),
            "device": f"{device.type} ({name}), {torch.get_num_threads()} threads",
            "precision": str(trainer.precision),
            "memory": profiler.memory.what,
            **{f"rows_{name}": rows for name, rows in self._rows.items()},
        }
        table, path = PhaseTable(ranks, about), profile_file(trainer)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(table.markdown())
        path.with_suffix(".json").write_text(json.dumps(table.data(), indent=1) + "\n")


def _of_all_ranks(records: dict[str, profiling.PhaseRecord]) -> list[dict[str, profiling.PhaseRecord]]:
    if not (dist.is_available() and dist.is_initialized()):
        return [records]
    ranks: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(ranks, records)
    return ranks


def _saved(save: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    with profiling.phase(profiling.CHECKPOINT):
        return save(*arguments, **named)
