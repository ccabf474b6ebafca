"""``fit``, killed at a given moment: ``python -m grpo_lightning.cli.killed_fit UPDATE:EVENT WORDS...``, for ``verify-resume``.

``-`` in place of the moment lets it run to its end. What every rollout asks for is written to ``prompts.jsonl``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from lightning.pytorch import Callback, LightningModule, Trainer
from typing_extensions import override

from grpo_lightning.atomic_files import being_written
from grpo_lightning.callbacks.base import ReportCallback
from grpo_lightning.cli.main import failed, leave
from grpo_lightning.cli.resume_points import Point
from grpo_lightning.cli.run import run
from grpo_lightning.reports import RolloutReport

PROMPTS = "prompts.jsonl"


class PromptRecord(ReportCallback):
    """Writes the prompt of every group of every rollout, by its number.

    Args:
        path: File to write; what is there stays.
    """

    name: ClassVar[str] = "prompt_record"

    def __init__(self, path: Path) -> None:
        self.path = path

    @override
    def on_rollout(self, trainer: Trainer, pl_module: LightningModule, report: RolloutReport) -> None:
        if trainer.is_global_zero:
            table = report.table
            prompts = {int(group): int(prompt) for group, prompt in zip(table.group_R, table.prompt_R, strict=True)}
            with self.path.open("a") as file:
                file.write(json.dumps({"rollout": report.rollout, "prompts": list(prompts.values())}) + "\n")


class Killer(Callback):
    """Kills the run, all processes at once, at a given moment.

    Args:
        point: The moment.
        checkpoint: The checkpoint that is being written when ``point`` is one of saving.
    """

    def __init__(self, point: Point, checkpoint: Path) -> None:
        self.point, self.part = point, being_written(checkpoint)

    def _at(self, trainer: Trainer, event: str) -> None:
        if self.point.event == event and trainer.global_step == self.point.update and trainer.is_global_zero:
            _kill()

    @override
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.point.event == "sampling":
            engine: Any = pl_module.engine
            generate = engine.generate

            def watched(*arguments: Any, **settings: Any) -> Any:
                self._at(trainer, "sampling")
                return generate(*arguments, **settings)

            engine.generate = watched

    @override
    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Any) -> None:
        self._at(trainer, "update")

    @override
    def on_validation_batch_start(self, trainer: Trainer, *_: Any) -> None:
        self._at(trainer, "evaluating")

    @override
    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._at(trainer, "evaluated")

    @override
    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        if self.point.event == "saving" and trainer.global_step == self.point.update and trainer.is_global_zero:
            threading.Thread(target=self._kill_while_written, daemon=True).start()

    def _kill_while_written(self) -> None:
        end = time.monotonic() + 10
        while time.monotonic() < end and not self.part.exists():
            pass
        _kill()


def _kill() -> NoReturn:
    os.killpg(0, signal.SIGKILL)
    raise AssertionError("a killed process goes on")


def main(words: Sequence[str]) -> int:
    """Run ``fit`` with the words after the moment; ``--run_folder`` or ``--resume`` must be the first of them."""
    point, (_, folder) = words[0], words[1].split("=", 1)
    callbacks: list[Callback] = [PromptRecord(Path(folder) / PROMPTS)]
    if point != "-":
        callbacks.append(Killer(Point.parse(point), Path(folder) / "checkpoints" / "last.ckpt"))
    return run("fit", words[1:], callbacks=callbacks)


if __name__ == "__main__":
    leave(failed(lambda: main(sys.argv[1:])))
