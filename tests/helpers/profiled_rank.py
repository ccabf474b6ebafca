"""One rank of a profiled run on the embedded model: ``python profiled_rank.py RUN_FOLDER RANKS``.

Started once for each rank, with ``LOCAL_RANK``, ``NODE_RANK``, ``WORLD_SIZE``, ``MASTER_ADDR`` and ``MASTER_PORT`` set where
there are several.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from grpo_lightning.callbacks.phase_profile import PhaseProfile
from helpers.tiny_runs import tiny_data, tiny_module, tiny_trainer


def run(folder: Path, ranks: int) -> None:
    """Two updates of the warm-up, then a rollout of four."""
    torch.manual_seed(0)
    trainer = tiny_trainer(
        folder,
        6,
        devices=ranks,
        strategy="ddp" if ranks > 1 else "auto",
        use_distributed_sampler=False,
        callbacks=[PhaseProfile()],
    )
    trainer.fit(tiny_module(), datamodule=tiny_data(validate_every=3))


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]))
