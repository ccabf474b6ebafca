"""However many processes there are, and however they hold the weights: they train as one process does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.launched_ranks import TESTS, rank_variables, run_ranks
from helpers.rank import AGGREGATIONS
from helpers.tiny_policy import relative, save_model

SCRIPT = TESTS / "helpers" / "rank.py"
SECONDS = 240
KINDS = ["full", "lora", "update", "group", "uneven", "exact"]

pytestmark = [pytest.mark.slow, pytest.mark.multiprocess, pytest.mark.timeout(600)]


def run(model: str, folder: Path, ranks: int, kind: str, strategy: str = "auto") -> dict[str, Any]:
    for done in run_ranks(
        [str(SCRIPT), model, str(folder), str(ranks), kind, strategy], rank_variables(ranks), seconds=SECONDS
    ):
        assert done.returncode == 0, done.stderr[-3000:]
    return torch.load(folder / f"ranks-{strategy}{ranks}.pt", weights_only=True)  # type: ignore[no-any-return]


def check(one: dict[str, Any], many: dict[str, Any]) -> float:
    """Compare two runs; the largest relative L2 distance of what weights have moved, over updates."""
    start, largest = one["weights"][0], 0.0
    for update, (wanted, found) in enumerate(zip(one["weights"], many["weights"], strict=True)):
        assert wanted.keys() == found.keys()
        if update == 0:
            assert all(torch.equal(found[name], each) for name, each in start.items())
            continue
        changes = [{name: each - start[name] for name, each in ran.items()} for ran in (wanted, found)]
        largest = max(largest, relative(changes[1], changes[0]))
    assert largest < 1e-10
    for first, second in zip(one["metrics"], many["metrics"], strict=True):
        assert first.keys() == second.keys()
        for name in first:
            if not name.startswith("time/") and name != "perf/micro_batches":
                # Sampling's log-probabilities are kept in float32, and what is rounded there may be rounded the other way.
                noise = 1e-8 if name.startswith("policy/sampler") else 1e-12
                assert second[name] == pytest.approx(first[name], rel=1e-9, abs=noise), name
    return largest


@pytest.mark.parametrize("kind", KINDS)
def test_processes_train_as_one(kind: str, tmp_path: Path) -> None:
    model = save_model(tmp_path / "model")
    one = run(model, tmp_path, 1, kind)
    for strategy in ("ddp", "fsdp2", "fsdp2-in-step"):
        check(one, run(model, tmp_path, 2, kind, strategy))


@pytest.mark.parametrize("kind", sorted(AGGREGATIONS))
def test_every_aggregation(kind: str, tmp_path: Path) -> None:
    model = save_model(tmp_path / "model")
    check(run(model, tmp_path, 1, kind), run(model, tmp_path, 2, kind, "ddp"))


@pytest.mark.parametrize("strategy", ["ddp", "fsdp2", "fsdp2-in-step"])
def test_four_processes(strategy: str, tmp_path: Path) -> None:
    model = save_model(tmp_path / "model")
    for kind in ("full", "uneven"):
        check(run(model, tmp_path, 1, kind), run(model, tmp_path, 4, kind, strategy))
