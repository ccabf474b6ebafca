"""One training run by the command line's own way, and the memory that each of its processes needed for it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, Trainer
from measuring import memory

from grpo_lightning.cli.run import run


class Watch(Callback):
    """Writes, after every micro-batch, what the process held before it had weights and the most that it held since.

    Args:
        folder: Where each process writes its file.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.idle, self.loaded = folder, 0, 0

    def setup(self, trainer: Trainer, pl_module: Any, stage: str) -> None:
        memory.release()
        self.idle = memory.resident()

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        self.loaded = memory.resident()
        memory.restart()

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        facts = {"idle_bytes": self.idle, "loaded_bytes": self.loaded, "peak_bytes": memory.peak()}
        (self.folder / f"{trainer.global_rank}.json").write_text(json.dumps(facts))


if __name__ == "__main__":
    sys.exit(run("fit", sys.argv[2:], callbacks=[Watch(Path(sys.argv[1]))]))
