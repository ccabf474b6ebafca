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


def _apart(found: dict[str, Any], wanted: dict[str, Any]) -> float:
    """Relative distance; 0 where both are nothing, as in an update without signal."""
    if not any(each.any() for each in wanted.values()):
        return float("inf") if any(each.any() for each in found.values()) else 0.0
    return relative(found, wanted)


def check(
    one: dict[str, Any], many: dict[str, Any], *, distance: float = 1e-10, rel: float = 1e-9, noise: float = 1e-12
) -> float:
    """Compare two runs; the largest relative L2 distance of a gradient, and of what weights have moved, over updates.

    Args:
        one: What one process saw.
        many: What the first of several saw.
        distance: Bound on it.
        rel: Bound on the relative difference of a metric, or
        noise: on its absolute one.
    """
    start = one["weights"][0]
    assert all(torch.equal(many["weights"][0][name], each) for name, each in start.items())
    assert len(one["gradients"]) == len(one["weights"]) - 1 == len(one["metrics"])
    found = [_apart(each, wanted) for wanted, each in zip(one["gradients"], many["gradients"], strict=True)]
    if next(iter(start.values())).dtype == torch.float64:  # what moves in float32 is rounded by as much as it moves
        moved = [[{name: ran[name] - start[name] for name in ran} for ran in run["weights"][1:]] for run in (one, many)]
        found += [relative(each, wanted) for wanted, each in zip(*moved, strict=True)]
    assert max(found) < distance
    for first, second in zip(one["metrics"], many["metrics"], strict=True):
        assert first.keys() == second.keys()
        for name in first:
            if not name.startswith("time/") and name != "perf/micro_batches":
                # Sampling's log-probabilities are kept in float32, and what is rounded there may be rounded the other way.
                least = max(noise, 1e-8) if name.startswith("policy/sampler") else noise
                assert second[name] == pytest.approx(first[name], rel=rel, abs=least), name
    return max(found)


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


def test_replayed_rollouts_in_float32(tmp_path: Path) -> None:
    # In float32 sums in another order may sample another token: the completions are those of one run.
    model = save_model(tmp_path / "model")
    run(model, tmp_path, 1, "recorded")
    one = run(model, tmp_path, 1, "replayed")
    for strategy in ("ddp", "fsdp2"):
        check(one, run(model, tmp_path, 2, "replayed", strategy), distance=1e-5, rel=1e-4, noise=1e-5)


@pytest.mark.parametrize("strategy", ["ddp", "fsdp2", "fsdp2-in-step"])
def test_four_processes(strategy: str, tmp_path: Path) -> None:
    model = save_model(tmp_path / "model")
    for kind in ("full", "uneven"):
        check(run(model, tmp_path, 1, kind), run(model, tmp_path, 4, kind, strategy))
