"""Sums over an update by hand."""

from __future__ import annotations

import pytest
import torch

from grpo_lightning.rollout import world
from grpo_lightning.rollout.statistics import UpdateStatistics


def numbers(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32, requires_grad=True)


def test_totals_means_and_extremes() -> None:
    statistics = UpdateStatistics()
    for values in ((1.0, 2.0, 6.0), (3.0,)):
        statistics.count(rows=2, steps=len(values))
        statistics.total("loss", numbers(*values).sum())
        statistics.mean("entropy", numbers(*values))
        statistics.largest("top", numbers(*values))
        statistics.smallest("low", numbers(*values))
    found = statistics.reduce()
    assert found == {
        "loss": 12.0, "entropy": 3.0, "top": 6.0, "low": 1.0, "perf/rows_run": 4.0, "perf/steps_run": 4.0,
        "perf/micro_batches": 2.0,
    }  # fmt: skip
    assert list(found)[:3] == ["loss", "entropy", "top"]


def test_nothing_was_run() -> None:
    assert UpdateStatistics().reduce() == {"perf/rows_run": 0.0, "perf/steps_run": 0.0, "perf/micro_batches": 0.0}


def test_sums_are_wide() -> None:
    statistics = UpdateStatistics()
    statistics.count(1, 3)
    statistics.mean("x", torch.tensor([1.0, 2.0**-30, -1.0]))
    statistics.total("y", torch.tensor(1.0))
    statistics.total("y", torch.tensor(2.0**-30))
    found = statistics.reduce()
    assert found["x"] == pytest.approx(2.0**-30 / 3, rel=1e-12)
    assert found["y"] == 1.0 + 2.0**-30


def test_nothing_keeps_a_graph_alive() -> None:
    statistics = UpdateStatistics()
    statistics.total("loss", numbers(1.0).sum())
    statistics.mean("entropy", numbers(1.0))
    statistics.largest("top", numbers(1.0))
    parts = [statistics._totals, statistics._means, statistics._largest]
    assert not any(value.requires_grad for part in parts for value in part.values())


def test_not_a_number_shows() -> None:
    statistics = UpdateStatistics()
    statistics.count(1, 2)
    for name in ("total", "mean", "largest"):
        getattr(statistics, name)(name, torch.tensor([1.0, torch.nan]) if name != "total" else torch.tensor(torch.nan))
    found = statistics.reduce()
    assert all(found[name] != found[name] for name in ("total", "mean", "largest"))


def test_ranks_are_weighted_by_their_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another rank ran three steps of mean 5 and had the larger extreme; a third ran nothing."""
    other = ({"loss": 1.5}, {"entropy": 15.0}, {"top": 9.0}, 2, 3, 4)
    monkeypatch.setattr(world, "gather", lambda value: [value, other, ({}, {}, {}, 0, 0, 0)])
    statistics = UpdateStatistics()
    statistics.count(rows=1, steps=1)
    statistics.total("loss", numbers(0.5).sum())
    statistics.mean("entropy", numbers(1.0))
    statistics.largest("top", numbers(2.0))
    assert statistics.reduce() == {
        "loss": 2.0, "entropy": 4.0, "top": 9.0, "perf/rows_run": 3.0, "perf/steps_run": 4.0, "perf/micro_batches": 4.0
    }  # fmt: skip
