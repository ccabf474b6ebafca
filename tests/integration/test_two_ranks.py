"""One gradient over ranks: two processes train as one does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.launched_ranks import TESTS, rank_variables, run_ranks
from helpers.tiny_policy import relative, save_model

SCRIPT = TESTS / "helpers" / "rank.py"
SECONDS = 120

pytestmark = [pytest.mark.slow, pytest.mark.multiprocess]


def run(model: str, folder: Path, ranks: int, kind: str) -> dict[str, Any]:
    words = [str(SCRIPT), model, str(folder), str(ranks), kind]
    for done in run_ranks(words, rank_variables(ranks), seconds=SECONDS):
        assert done.returncode == 0, done.stderr[-2000:]
    return torch.load(folder / f"ranks-{ranks}.pt", weights_only=True)  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", ["full", "lora", "update", "group"])
def test_two_ranks_train_as_one(tmp_path: Path, kind: str) -> None:
    model = save_model(tmp_path / "model")
    one, two = (run(model, tmp_path, ranks, kind) for ranks in (1, 2))
    start_weights = one["weights"][0]
    for update in range(6):
        assert one["weights"][update].keys() == two["weights"][update].keys()
        if update == 0:
            assert all(torch.equal(two["weights"][0][name], each) for name, each in start_weights.items())
        else:
            changes = [
                {name: each - start_weights[name] for name, each in ran["weights"][update].items()}
                for ran in (one, two)
            ]
            assert relative(changes[1], changes[0]) < 1e-10
    for first, second in zip(one["metrics"], two["metrics"], strict=True):
        assert first.keys() == second.keys()
        for name in first:
            if not name.startswith("time/") and name != "perf/micro_batches":
                assert second[name] == pytest.approx(first[name], rel=1e-9, abs=1e-12), name
