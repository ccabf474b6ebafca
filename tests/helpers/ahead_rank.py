"""One rank of a run that samples one rollout ahead: ``python ahead_rank.py RUN_FOLDER RANKS SERVER...``; see ``rank.py``."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from helpers.ahead_runs import ahead_module
from helpers.tiny_run import fit

if __name__ == "__main__":
    folder, ranks = Path(sys.argv[1]), int(sys.argv[2])
    module = ahead_module(sys.argv[3:], folder / "served")
    watch = fit(folder, module, max_steps=6, ranks=ranks)
    rows = [rollouts.state_dict() for rollouts in watch.rollouts]
    told = [report.staleness for report in watch.rollout_reports]
    torch.save({"rows": rows, "staleness": told}, folder / f"ahead-{ranks}-{module.global_rank}.pt")
