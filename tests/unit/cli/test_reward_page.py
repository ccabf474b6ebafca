from __future__ import annotations

import json
from pathlib import Path

import pytest

from grpo_lightning.cli.recorded_scores import RecordedScores, recorded_scores
from grpo_lightning.cli.reward_page import aligned, number, page
from grpo_lightning.cli.reward_setup import RewardSetup
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.exact_match import ExactMatch
from helpers.configured_classes import built_ins


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def score(completions: list[str]) -> RecordedScores:
    Path("rows.jsonl").write_text(json.dumps({"completion": completions, "answer": "a"}) + "\n")
    setup = RewardSetup("made.yaml", [RewardEntry(reward=ExactMatch(), weight=2.0)], {})
    return recorded_scores(setup, "rows.jsonl", None, built_ins())


def test_page() -> None:
    lines = page(score(["a", "b\nc " + "d" * 50])).splitlines()
    assert lines[:5] == [
        "rows.jsonl: 2 rows in 1 group, scored by made.yaml",
        "",
        "line  group  exact_match  total  completion",
        "   1      0        1.000  2.000  a",
        "   1      0        0.000  0.000  b c ddddddddddddddddddddddddddddddddd...",
    ]
    assert lines[6].split() == [
        "reward", "role", "mean", "std", "min", "max", "abstained", "failed", "seconds", "ms", "a", "row",
    ]  # fmt: skip
    assert lines[7].split()[:9] == ["exact_match", "weight", "2", "0.500", "0.500", "0.000", "1.000", "0", "0"]
    assert lines[8].split() == ["total", "1.000", "1.000", "0.000", "2.000", "0"]
    assert lines[-1] == "groups without signal: 0 of 1 (0%)"


def test_long_recordings_are_cut() -> None:
    text = page(score(["a"] * 25))
    assert "\n(5 more; --json shows all)\n" in text
    assert text.count("  a\n") == 20
    assert "\nwarning: the composed reward is constant" in text


def test_columns_stand_below_each_other() -> None:
    assert aligned([["name", "x"], ["a", "10"]], left={0}) == ["name   x", "a     10"]
    assert number(-0.25) == "-0.250"
