from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from grpo_lightning.cli.recorded_scores import RecordedScores, recorded_scores
from grpo_lightning.cli.reward_comparison import best_changes, compare
from grpo_lightning.cli.reward_setup import RewardSetup
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.function import FunctionReward
from helpers.configured_classes import built_ins


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def first(completions: list[str]) -> list[Any]:
    """The first of two numbers."""
    return [float(completion.split()[0]) for completion in completions]


def second(completions: list[str]) -> list[Any]:
    """The second of two numbers, or nothing."""
    return [float(completion.split()[1]) if " " in completion else None for completion in completions]


def scored(*groups: list[str]) -> tuple[RecordedScores, RecordedScores]:
    Path("rows.jsonl").write_text("".join(json.dumps({"completion": group}) + "\n" for group in groups))
    setups = [
        RewardSetup(name.__name__, [RewardEntry(reward=FunctionReward(function=name))], {}) for name in (first, second)
    ]
    one, two = (recorded_scores(setup, "rows.jsonl", None, built_ins()) for setup in setups)
    return one, two


def test_values_by_hand() -> None:
    # Group 0: equal orders. Group 1: opposite ones. Group 2: the second is constant. One row abstains, one is alone.
    found = compare(*scored(["1 10", "2 20", "3 30"], ["4 20", "5 10", "9"], ["1 5", "2 5"], ["7 7"]))
    assert (found.rows, found.groups) == (8, 3)
    assert (found.spearman.within_groups, found.spearman.groups) == (0.0, 2)  # 1 and -1
    assert (found.kendall.within_groups, found.kendall.groups) == (0.0, 2)
    # Ranks of the first: 1.5 3.5 5 6 7 1.5 3.5 8, of the second: 4.5 6.5 8 6.5 4.5 1.5 1.5 3.
    a = torch.tensor([1.5, 3.5, 5, 6, 7, 1.5, 3.5, 8]).double() - 4.5
    b = torch.tensor([4.5, 6.5, 8, 6.5, 4.5, 1.5, 1.5, 3]).double() - 4.5
    assert found.spearman.over_all == pytest.approx(float((a * b).sum() / ((a * a).sum() * (b * b).sum()).sqrt()))
    assert found.best_changes == 1  # group 1; in group 2 both are best by the second
    one, two = found.totals
    assert one["mean"] == pytest.approx((1 + 2 + 3 + 4 + 5 + 9 + 1 + 2 + 7) / 9)
    assert two["mean"] == pytest.approx((10 + 20 + 30 + 20 + 10 + 5 + 5 + 7) / 8)
    assert (one["abstained"], two["abstained"]) == (0, 1)
    assert (one["groups_without_signal"], two["groups_without_signal"]) == (0, 1)


def test_best_members() -> None:
    assert best_changes(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0]))
    assert not best_changes(torch.tensor([1.0, 1.0]), torch.tensor([0.0, 1.0])), "of two that are best, one still is"


def test_page_and_json() -> None:
    found = compare(*scored(["1 1", "2 0"], ["3 3", "4 4"]))
    lines = found.page().splitlines()
    assert lines[:3] == ["A  first", "B  second", "rows.jsonl: 4 rows scored by both, 2 groups of several of them"]
    assert ["Spearman", "0.800", "0.000", "2"] in map(str.split, lines)  # ranks 1 2 3 4 and 2 1 3 4: 1 - 6 * 2 / 60
    assert ["Kendall", "tau-b", "0.667", "0.000", "2"] in map(str.split, lines)  # 5 - 1 of 6 pairs
    assert "groups whose best member changes: 1 of 2 (50%)" in lines
    assert json.loads(json.dumps(found.as_json()))["spearman"]["over_all"] == pytest.approx(0.8)


def test_nothing_in_common() -> None:
    found = compare(*scored(["1"], ["2"]))
    assert (found.rows, found.groups, found.spearman.over_all, found.kendall.within_groups) == (0, 0, None, None)
    assert "groups whose best member changes: 0 of 0" in found.page()
