from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from grpo_lightning.cli.recorded_scores import RecordedScores, recorded_scores
from grpo_lightning.cli.reward_setup import RewardSetup
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.exact_match import ExactMatch
from grpo_lightning.rewards.function import FunctionReward
from helpers.configured_classes import built_ins


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def score(entries: list[RewardEntry], *rows: dict[str, Any], limit: int | None = None) -> RecordedScores:
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return recorded_scores(RewardSetup("made", entries, {}), "rows.jsonl", limit, built_ins())


def fragile(completions: list[str]) -> list[float]:
    return [float("nan") if completion == "x" else len(completion) / 1.0 for completion in completions]


def test_components_are_composed_as_in_a_run() -> None:
    entries = [
        RewardEntry(reward=ExactMatch(), weight=2.0),
        RewardEntry(reward=ExactMatch(ignore_case=True), name="loose", weight=0.5),
    ]
    found = score(entries, {"prompt": "p", "completion": ["A", "a", "b"], "answer": "a"})
    assert found.composed.rewards_R.tolist() == [0.5, 2.5, 0.0]
    assert found.silent_groups() == (0, 1)


def test_every_failure_is_seen_where_a_run_would_stop() -> None:
    stops, counts_zero = RewardEntry(reward=FunctionReward(function=fragile)), RewardEntry(
        reward=FunctionReward(function=fragile), name="lenient", on_failure=0.0
    )  # fmt: skip
    found = score([stops, counts_zero], {"completion": ["ab", "x", "x"]})
    assert found.composed.components["fragile"].isnan().tolist() == [False, True, True]
    assert found.composed.components["lenient"].tolist() == [2.0, 0.0, 0.0]
    assert found.stopping == {"fragile"}
    assert (found.count("fragile", "failures"), found.count("fragile", "failures/not_finite")) == (2.0, 2.0)
    assert stops.on_failure == "stop", "the entry itself is left as it is"


def test_groups_without_signal() -> None:
    rows = [
        {"completion": ["a", "a"], "answer": "a"},  # equal
        {"completion": ["a", "b"], "answer": "a"},
        {"completion": ["b", "c"], "answer": "a"},  # equal
        {"completion": ["a", "b"], "answer": None},  # abstains
        {"completion": ["a"], "answer": "a"},  # alone
    ]
    assert score([RewardEntry(reward=ExactMatch())], *rows).silent_groups() == (2, 3)


def test_limit_reads_the_first_lines() -> None:
    found = score([RewardEntry(reward=ExactMatch())], *[{"completion": "a", "answer": "a"}] * 5, limit=2)
    assert len(found.recording.episodes) == 2
