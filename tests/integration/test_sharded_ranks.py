"""Sharded weights: processes that hold a part each train as one process does that holds all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.launched_ranks import TESTS, rank_variables, run_ranks
from helpers.tiny_policy import relative, save_model

SCRIPT = TESTS / "helpers" / "rank.py"
SECONDS = 180

pytestmark = [pytest.mark.slow, pytest.mark.multiprocess]


def run(model: str, folder: Path, ranks: int, kind: str, strategy: str = "") -> dict[str, Any]:
    words = [str(SCRIPT), model, str(folder), str(ranks), kind, *filter(None, [strategy])]
    for done in run_ranks(words, rank_variables(ranks), seconds=SECONDS):
        assert done.returncode == 0, done.stderr[-3000:]
    return torch.load(folder / f"ranks-{strategy}{ranks}.pt", weights_only=True)  # type: ignore[no-any-return]


@pytest.mark.parametrize("ranks", [2])
@pytest.mark.parametrize("kind", ["full", "lora", "update", "group", "uneven"])
def test_sharded_ranks_train_as_one(tmp_path: Path, kind: str, ranks: int) -> None:
    model = save_model(tmp_path / "model")
    one, many = run(model, tmp_path, 1, kind), run(model, tmp_path, ranks, kind, "fsdp2")
    start = one["weights"][0]
    for update, (wanted, found) in enumerate(zip(one["weights"], many["weights"], strict=True)):
        assert wanted.keys() == found.keys()
        if update == 0:
            assert all(torch.equal(found[name], each) for name, each in start.items())
        else:
            changes = [{name: each - start[name] for name, each in ran.items()} for ran in (wanted, found)]
            assert relative(changes[1], changes[0]) < 1e-10
    for first, second in zip(one["metrics"], many["metrics"], strict=True):
        assert first.keys() == second.keys()
        for name in first:
            if not name.startswith("time/") and name != "perf/micro_batches":
                assert second[name] == pytest.approx(first[name], rel=1e-9, abs=1e-12), name
