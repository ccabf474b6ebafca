from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grpo_lightning.cli import reward_report
from grpo_lightning.cli.recorded_scores import RecordedScores, recorded_scores
from grpo_lightning.cli.reward_report import as_json, statistics, total_statistics, warnings
from grpo_lightning.cli.reward_setup import RewardSetup
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.function import FunctionReward
from helpers.configured_classes import built_ins


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def number(completions: list[str]) -> list[float | None]:
    """The number that a completion is, ``None`` for the empty one."""
    return [float(completion) if completion else None for completion in completions]


def entry(function: Callable[..., Any] = number, **settings: Any) -> RewardEntry:
    return RewardEntry(reward=FunctionReward(function=function), **settings)


def score(entries: list[RewardEntry], *groups: list[str], config: dict[str, Any] | None = None) -> RecordedScores:
    Path("rows.jsonl").write_text("".join(json.dumps({"completion": group, "task": "t"}) + "\n" for group in groups))
    return recorded_scores(RewardSetup("made", entries, config or {}), "rows.jsonl", None, built_ins())


def test_statistics_by_hand() -> None:
    (found,) = statistics(score([entry(weight=0.5)], ["1", "3"], ["5", "", "7"]))
    assert (found.name, found.role, found.rows, found.abstained, found.failed) == ("number", "weight 0.5", 5, 1, {})
    assert (found.mean, found.min, found.max) == (4.0, 1.0, 7.0)
    assert found.std == pytest.approx(5**0.5)  # (9 + 1 + 1 + 9) / 4
    assert found.seconds_per_row == pytest.approx(found.seconds / 5)


def test_total_by_hand() -> None:
    total = total_statistics(score([entry(weight=0.5)], ["1", "3"], ["5", "", "5"], ["2"]))
    assert (total["rows"], total["abstained"], total["groups"]) == (6, 1, 3)
    assert (total["groups_compared"], total["groups_without_signal"]) == (2, 1)
    assert total["mean"] == pytest.approx((0.5 + 1.5 + 2.5 + 2.5 + 1.0) / 5)


def test_roles() -> None:
    entries = [entry(), entry(gate=True, name="gate"), entry(log_only=True, name="seen")]
    assert [each.role for each in statistics(score(entries, ["1", "2"]))] == ["weight 1", "gate", "logged"]


def test_nothing_is_said_of_a_sound_reward() -> None:
    assert warnings(score([entry()], ["1", "3"], ["2", "0"])) == []


def test_constants() -> None:
    assert warnings(score([entry()], ["2", "2"], ["2", "2"])) == [
        "the composed reward is constant within every one of the 2 groups: there is no signal to train on",
        "number is 2 for every row",
    ]
    within = warnings(score([entry(), entry(seven, name="seven")], ["1", "2"], ["3", "4"]))
    assert within == ["seven is 7 for every row"]
    assert "number is constant within every group, so it cannot tell members apart" in warnings(
        score([entry()], ["2", "2"], ["3", "3"])
    )


def seven(completions: list[str]) -> list[float]:
    return [7.0 for _ in completions]


def test_abstentions() -> None:
    found = warnings(score([entry(), entry(seven, name="seven")], ["", ""]))
    assert "number abstains from every row" in found
    assert any(each.startswith("no two scored rows belong to one group") for each in warnings(score([entry()], ["1"])))


def test_rows_that_a_reward_does_not_apply_to() -> None:
    found = warnings(score([entry(), entry(seven, name="seven", when={"task": "other"})], ["1", "2"]))
    assert found == ["seven applies to no row: its `when` matches none"]


def bad(completions: list[str]) -> list[float]:
    raise KeyError("by hand")


def test_failures() -> None:
    found = warnings(score([entry(), entry(bad, name="bad")], ["1", "2"]))
    assert found == ["bad failed on 2 of 2 rows (2 raised); a run would stop at the first"]
    assert warnings(score([entry(), entry(bad, name="bad", on_failure="abstain")], ["1", "2"])) == [
        "bad failed on 2 of 2 rows (2 raised)"
    ]


def hundred(completions: list[str]) -> list[float]:
    return [100 * float(completion) for completion in completions]


def test_scales() -> None:
    # Inside the group they vary by 0.5 and 50.
    (found,) = warnings(score([entry(), entry(hundred)], ["1", "2"]))
    assert found == (
        "hundred dwarfs number: times its weight it varies by 50 inside groups, the others by 0.5 together; change the "
        "weights if they shall count"
    )
    assert warnings(score([entry(), entry(hundred, weight=0.01)], ["1", "2"])) == []
    assert warnings(score([entry(), entry(hundred, gate=True)], ["1", "2"])) == [], "gates multiply"


def test_time() -> None:
    scored = score([entry()], ["1", "2"], config={"model": {"group_size": 4, "prompts_per_rollout": 25}})
    slow = {"number": {**scored.scores.counts["number"], "seconds": 0.5}}  # 250 ms a row
    (found,) = warnings(replace(scored, scores=replace(scored.scores, counts=slow)))
    assert found == (
        "number takes 250 ms a row: a rollout of 100 rows would wait 25 s for it; see its concurrency and cache"
    )
    assert reward_report.SLOW == 10.0


def test_json_has_every_row() -> None:
    found = as_json(score([entry()], ["1", ""]))
    assert json.loads(json.dumps(found)) == found
    assert found["rows"] == [
        {"line": 1, "group": 0, "member": 0, "components": {"number": 1.0}, "reward": 1.0},
        {"line": 1, "group": 0, "member": 1, "components": {"number": None}, "reward": None},
    ]
