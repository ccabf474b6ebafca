"""The rewards behind the entries of a run: failures by row, cache, tie-break after the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from faulty_server import FaultyServer, hang, says, status
from grpo_lightning_judge import Endpoint, JudgePairwise, JudgeScore, JudgeTieBreak
from grpo_lightning_judge.toy_server import ToyServer

from grpo_lightning.errors import RewardError
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.firewall import Firewall
from grpo_lightning.rewards.scores import Scores
from grpo_lightning.testing.episodes import episodes

TEXTS = ["x", "xx", "xxx", "xxxx"]


def at(server: ToyServer | FaultyServer, **settings: Any) -> Endpoint:
    return Endpoint(**{"base_url": server.base_url, "model": "toy", "retries": 0, "reasks": 0, **settings})


def scores(entries: list[RewardEntry], *, groups: int = 1) -> Scores:
    with Firewall(entries) as firewall:
        return firewall.scores(episodes({}, groups=groups, texts=TEXTS), update=0, stage="train")


@pytest.mark.parametrize(("policy", "expected"), [("abstain", None), (0.0, 0.0), (-1.0, -1.0)])
def test_the_policy_of_the_entry_replaces_the_row_without_a_verdict(
    faulty: Callable[..., FaultyServer], policy: Any, expected: float | None
) -> None:
    good = says('{"score": 8}')
    server = faulty(good, says("?"), good)
    entry = RewardEntry(reward=JudgeScore(judge=at(server, concurrent_requests=1)), on_failure=policy)
    found = scores([entry])
    assert found.raw["judge_score"] == [0.8, expected, 0.8, 0.8]
    assert found.failures == {"judge_score": 1}
    assert found.counts["judge_score"]["failures/not_finite"] == 1


def test_a_judge_that_is_down_stops_the_run_with_its_reason(faulty: Callable[..., FaultyServer]) -> None:
    entry = RewardEntry(reward=JudgeScore(judge=at(faulty(status(503, "out of memory")))))
    with pytest.raises(RewardError, match=r"judge_score.*JudgeError: judge failed \(server_error\): .*out of memory"):
        scores([entry])


def test_a_judge_that_is_down_costs_each_group_its_scores(faulty: Callable[..., FaultyServer]) -> None:
    entry = RewardEntry(reward=JudgePairwise(judge=at(faulty(status(503)))), on_failure="abstain", per_call="group")
    found = scores([entry], groups=2)
    assert found.raw["judge_pairwise"] == [None] * 8
    assert found.counts["judge_pairwise"]["failures/raised"] == 8


def test_the_entry_bounds_a_call_that_the_requests_do_not(faulty: Callable[..., FaultyServer]) -> None:
    slow = at(faulty(hang), timeout=60.0)
    entry = RewardEntry(reward=JudgeScore(judge=slow), timeout=0.5, on_failure="abstain")
    found = scores([entry])
    assert found.raw["judge_score"] == [None] * 4
    assert found.counts["judge_score"]["failures/timeout"] == 4


def test_the_cache_of_the_entry_spares_the_judge_and_holds_no_key(
    toy: Callable[..., ToyServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_JUDGE_KEY", "sk-verysecret")
    server, file = toy(rule=lambda texts: [len(text) / 10 for text in texts]), tmp_path / "scores.sqlite"

    def entry() -> RewardEntry:
        judge = at(server, api_key_env="MY_JUDGE_KEY")
        return RewardEntry(reward=JudgePairwise(judge=judge), per_call="group", cache=str(file))

    first = scores([entry()], groups=2)
    asked = len(server.bodies)
    assert asked == 2 * 2 * 6
    assert scores([entry()], groups=2).raw == first.raw
    assert len(server.bodies) == asked
    held = [path.read_bytes() for path in tmp_path.iterdir()]
    assert held
    assert not any(b"verysecret" in content for content in held)


def test_failed_rows_are_not_cached(faulty: Callable[..., FaultyServer], tmp_path: Path) -> None:
    server = faulty(says("?"), says('{"score": 8}'))

    def entry() -> RewardEntry:
        judge = at(server, concurrent_requests=1)
        return RewardEntry(reward=JudgeScore(judge=judge), on_failure=0, cache=str(tmp_path / "scores.sqlite"))

    assert scores([entry()]).raw["judge_score"] == [0.0, 0.8, 0.8, 0.8]
    assert scores([entry()]).raw["judge_score"] == [0.8] * 4


class _Fixed(JudgeScore):
    """Scores that are given."""

    name = "fixed"

    def __init__(self, *, given: list[float]) -> None:
        super().__init__(judge=Endpoint(base_url="dry-run", model="m"))
        self.given = given

    async def score(self, *, prompts: list[Any], completions: list[str], **columns: list[Any]) -> Sequence[float]:
        return self.given


def test_the_tie_break_comes_after_the_others_and_only_in_tied_groups(toy: Callable[..., ToyServer]) -> None:
    server = toy(rule=lambda texts: [len(text) / 10 for text in texts])
    fixed = RewardEntry(reward=_Fixed(given=[0.5] * 4 + [0.5, 0.5, 0.5, 1.0]))
    tie_break = RewardEntry(reward=JudgeTieBreak(judge=at(server)))
    for entries in ([tie_break, fixed], [fixed, tie_break]):
        found = scores(entries, groups=2).raw["judge_tie_break"]
        assert sorted(found[:4]) == [-1.0, -1.0, 1.0, 1.0]
        assert found[4:] == [0.0] * 4
