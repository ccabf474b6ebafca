"""Completions as JSONL: what ``predict`` writes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from lightning.pytorch import Callback, LightningModule, Trainer
from typing_extensions import override


class PredictionWriter(Callback):
    """Writes one JSON object a completion.

    Every rank writes a part; the parts become one file, in order of rank, when all is done. A run that is stopped
    leaves no file that looks whole.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[str] | None = None

    def _part(self, rank: int) -> Path:
        return self.path.with_name(f"{self.path.name}.part{rank}")

    @override
    def on_predict_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._part(trainer.global_rank).open("w", encoding="utf-8")

    @override
    def on_predict_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        assert self._file is not None
        for row in outputs or []:
            self._file.write(json.dumps(_plain(row), ensure_ascii=False, allow_nan=False) + "\n")

    @override
    def on_predict_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._close()
        trainer.strategy.barrier("predictions")
        if trainer.is_global_zero:
            parts = [self._part(rank) for rank in range(trainer.world_size)]
            with parts[0].open("a", encoding="utf-8") as whole:
                for part in parts[1:]:
                    whole.write(part.read_text(encoding="utf-8"))
                    part.unlink()
            parts[0].replace(self.path)

    @override
    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._close()
        self._part(trainer.global_rank).unlink(missing_ok=True)

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _plain(value: Any) -> Any:
    """``value`` as JSON has it: NaN and infinities, which it has not, become ``null``."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
