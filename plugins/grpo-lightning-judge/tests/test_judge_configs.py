"""The configurations train: what the toy judge likes becomes more frequent, by its verdicts alone."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from grpo_lightning_judge.toy_server import ToyServer

CONFIGS = Path(__file__).parent.parent / "configs"


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("config", "entry"), [("pairwise", 0), ("tie_break", 1)])
def test_hidden_quality_rises(config: str, entry: int, toy: Callable[..., ToyServer], tmp_path: Path) -> None:
    server = toy(flips=0.15)
    subprocess.run(
        [
            sys.executable, "-m", "grpo_lightning", "fit", "--config", str(CONFIGS / f"{config}.yaml"),
            "--trainer.max_steps", "40", "--data.validate_every", "40",
            f"--model.rewards.{entry}.reward.judge.base_url", server.base_url,
        ],
        check=True, cwd=tmp_path, timeout=240, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    (metrics,) = tmp_path.glob("runs/*/metrics.csv")
    name = "validation/held_out/reward/hidden_quality"
    with metrics.open() as file:
        quality = [float(row[name]) for row in csv.DictReader(file) if row.get(name)]
    assert quality[0] < 0.2
    assert quality[-1] > 0.4
    assert server.bodies
