from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from faulty_server import FaultyServer, says, status
from grpo_lightning_judge import (
    Endpoint,
    JudgeAnchors,
    JudgeError,
    JudgeListwise,
    JudgePairwise,
    JudgeRubric,
    JudgeScore,
    JudgeTieBreak,
)
from grpo_lightning_judge.rubric import criteria_of, weighted_mean
from grpo_lightning_judge.toy_server import ToyServer

from grpo_lightning.errors import ConfigError, DataError
from grpo_lightning.rewards.base import Reward

Toy = Callable[..., ToyServer]
Faulty = Callable[..., FaultyServer]


def at(server: ToyServer | FaultyServer, **settings: Any) -> Endpoint:
    return Endpoint(**{"base_url": server.base_url, "model": "toy", "retries": 0, **settings})


def score(reward: Reward, completions: Sequence[str], **arguments: Any) -> list[Any]:
    arguments = {"prompts": ["2+2?"] * len(completions), "completions": list(completions), **arguments}
    return list(asyncio.run(reward.score(**arguments)))  # type: ignore[arg-type]


def by_length(texts: Sequence[str]) -> list[float]:
    return [min(len(text), 10) / 10 for text in texts]


def test_score_is_the_share_of_the_scale_and_equal_rows_are_judged_once(toy: Toy) -> None:
    server = toy(rule=by_length)
    assert score(JudgeScore(judge=at(server)), ["abc", "", "abc", "abcde"]) == [0.3, 0.0, 0.3, 0.5]
    assert len(server.bodies) == 3
    assert score(JudgeScore(judge=at(server), low=1, high=5), ["abcde"]) == [0.5]


def test_score_puts_votes_together(faulty: Faulty) -> None:
    answers = [says(f'{{"score": {grade}}}') for grade in (1, 9, 2)]
    settings: dict[str, Any] = {"temperature": 1.0, "concurrent_requests": 1}
    mean = JudgeScore(judge=at(faulty(*answers), **settings), votes=3)
    assert score(mean, ["x"]) == [pytest.approx(0.4)]
    median = JudgeScore(judge=at(faulty(*answers), **settings), votes=3, aggregate="median")
    assert score(median, ["x"]) == [pytest.approx(0.2)]
    partly = JudgeScore(judge=at(faulty(answers[0], says("?"), answers[1]), reasks=0, **settings), votes=3)
    assert score(partly, ["x"]) == [pytest.approx(0.5)]  # of the two votes that were cast


def test_score_shows_a_reference_and_abstains_without_one(toy: Toy) -> None:
    server = toy(rule=by_length)
    reward = JudgeScore(judge=at(server), reference="gold")
    assert reward.columns() == ["gold"]
    assert score(reward, ["abc", "abc", "abc"], gold=["four", None, 4]) == [0.3, None, 0.3]
    assert len(server.bodies) == 2
    assert any("four" in body["messages"][1]["content"] for body in server.bodies)


def test_rubric_is_the_weighted_mean_of_marks(faulty: Faulty) -> None:
    server = faulty(says('{"marks": [1, 0, -1]}'))
    criteria = ["It is true.", "It is short.", "It is kind."]
    assert score(JudgeRubric(judge=at(server), criteria=criteria), ["x"]) == [0.0]
    # (2 * 1 + 1 * 0 - 1 * 1) / 4
    assert score(JudgeRubric(judge=at(server), criteria=criteria, weights=[2, 1, 1]), ["x"]) == [0.25]
    assert "1. It is true.\n2. It is short.\n3. It is kind." in server.bodies[0]["messages"][1]["content"]


def test_rubric_means_over_votes_and_negative_weights() -> None:
    # means: 1, 0.5; (1 * 1 - 1 * 0.5) / 2
    assert weighted_mean([[1, 1], [1, 0]], [1.0, -1.0]) == 0.25


def test_rubric_takes_criteria_from_a_column(toy: Toy) -> None:
    reward = JudgeRubric(judge=at(toy(rule=by_length)), column="criteria")
    rows = [["a", {"criterion": "b", "weight": 3}], None, [], "only one"]
    assert score(reward, ["x" * 9, "x", "x", "y"], criteria=rows) == [1.0, None, None, -1.0]
    assert criteria_of(rows[0], "criteria") == (("a", 1.0), ("b", 3.0))
    for wrong in (5, [7], [{"weight": 1}], [{"criterion": "a", "weight": 0}], [{"criterion": "a", "weight": "much"}]):
        with pytest.raises(DataError, match="criteria"):
            criteria_of(wrong, "criteria")


@pytest.mark.parametrize("settings", [{}, {"criteria": []}, {"criteria": ["a"], "column": "b"},
                                      {"criteria": ["a"], "weights": [1, 2]}, {"criteria": ["a"], "weights": [0]}])  # fmt: skip
def test_rubric_checks_its_settings(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        JudgeRubric(judge=Endpoint(base_url="dry-run", model="m"), **settings)


def test_pairwise_counts_wins(toy: Toy) -> None:
    server = toy(rule=by_length)
    texts = ["xxx", "x", "xxxx", "xx"]
    assert score(JudgePairwise(judge=at(server), normalise=False), texts, groups=[0] * 4) == [2.0, 0.0, 3.0, 1.0]
    assert len(server.bodies) == 4 * 3  # six pairs in both orders
    shares = score(JudgePairwise(judge=at(server)), texts, groups=[0] * 4)
    assert shares == [pytest.approx(wins / 3) for wins in (2, 0, 3, 1)]
    assert score(JudgePairwise(judge=at(server), normalise=False, alpha=0.5), texts, groups=[0] * 4)[2] == 1.5


def test_pairwise_keeps_groups_apart_and_abstains_on_lone_rows(toy: Toy) -> None:
    server = toy(rule=by_length)
    assert score(JudgePairwise(judge=at(server)), ["x", "xx", "xxx", "xxxx", "y"], groups=[0, 1, 0, 1, 2]) == [
        0.0, 0.0, 1.0, 1.0, None,
    ]  # fmt: skip
    assert len(server.bodies) == 4


def test_pairwise_judges_equal_responses_once_and_ties_them(toy: Toy) -> None:
    server = toy(rule=by_length)
    reward = JudgePairwise(judge=at(server), normalise=False, tie_value=0.5)
    assert score(reward, ["x", "xx", "x", "xx"], groups=[0] * 4) == [0.5, 2.5, 0.5, 2.5]
    assert len(server.bodies) == 2


def test_pairwise_that_always_prefers_the_first_gives_ties_only(faulty: Faulty) -> None:
    reward = JudgePairwise(judge=at(faulty(says('{"winner": "A"}'))))
    assert score(reward, ["x", "y", "z"], groups=[0, 0, 0]) == [0.0, 0.0, 0.0]
    assert reward.counts["inconsistent"] == reward.counts["comparisons"] == 3


def test_pairwise_makes_circles_acyclic(toy: Toy) -> None:
    beats = {("r", "s"), ("s", "p"), ("p", "r")}

    def rule(texts: Sequence[str]) -> list[float]:
        return [1.0, 0.0] if tuple(texts) in beats else [0.0, 1.0]

    server = toy(rule=rule)
    plainly = JudgePairwise(judge=at(server), acyclic=False, normalise=False)
    assert score(plainly, ["r", "s", "p"], groups=[0] * 3) == [1.0, 1.0, 1.0]
    assert score(JudgePairwise(judge=at(server), normalise=False), ["r", "s", "p"], groups=[0] * 3) == [
        pytest.approx(1.0)] * 3  # fmt: skip


def test_pairwise_rounds_ask_less(toy: Toy) -> None:
    server = toy(rule=by_length)
    texts = ["x" * length for length in range(1, 9)]
    reward = JudgePairwise(judge=at(server), rounds=3)
    scores = score(reward, texts, groups=[0] * 8)
    assert len(server.bodies) == 2 * 3 * 4
    assert scores[0] == 0.0
    assert scores[-1] == 1.0
    assert score(reward, texts[::-1], groups=[5] * 8) == scores[::-1]
    assert score(JudgePairwise(judge=at(server), rounds=3, seed=1), texts, groups=[0] * 8) != scores


def test_pairwise_majority_of_votes(faulty: Faulty) -> None:
    # Two votes for the one that stands first in the alphabet, one for the other.
    def vote(first: str, second: str) -> list[Any]:
        return [says(f'{{"winner": "{first}"}}'), says(f'{{"winner": "{second}"}}')]

    server = faulty(*vote("A", "B"), *vote("B", "A"), *vote("A", "B"))
    reward = JudgePairwise(judge=at(server, temperature=1.0, concurrent_requests=1), votes=3)
    assert score(reward, ["b", "a"], groups=[0, 0]) == [0.0, 1.0]


def test_pairwise_leaves_out_comparisons_without_a_verdict(faulty: Faulty) -> None:
    # Three pairs in both orders; the first question fails, so one pair has no result.
    server = faulty(status(400), says('{"winner": "A"}'))
    scores = score(JudgePairwise(judge=at(server), tie_value=0.5), ["x", "y", "z"], groups=[0] * 3)
    assert scores == [0.5, 0.5, 0.5]  # from the pairs that were judged, all ties
    with pytest.raises(JudgeError, match="refused"):
        score(JudgePairwise(judge=at(faulty(status(400)))), ["x", "y"], groups=[0, 0])


def test_anchors_count_wins(toy: Toy) -> None:
    server = toy(rule=by_length)
    reward = JudgeAnchors(judge=at(server), column="old")
    anchors = [["x", "yyy", "zzzzz", "xx"], None, [], "y"]
    assert score(reward, ["xx", "x", "x", "xxx"], old=anchors) == [0.25, None, None, 1.0]
    assert len(server.bodies) == 2 * (3 + 1)  # the equal pair is a tie without a question
    plainly = JudgeAnchors(judge=at(server), column="old", normalise=False, alpha=2.0, tie_value=0.5)
    assert score(plainly, ["xx"], old=anchors[:1]) == [3.0]
    with pytest.raises(DataError, match="old"):
        score(reward, ["x"], old=[[1]])


def test_listwise_is_the_mean_of_points(toy: Toy) -> None:
    server = toy(rule=by_length)
    reward = JudgeListwise(judge=at(server), votes=2)
    assert score(reward, ["xx", "x", "xxx", "xx", "y"], groups=[0, 0, 0, 0, 1]) == [0.5, 0.0, 1.0, 0.5, None]
    assert len(server.bodies) == 2
    first, second = (body["messages"][1]["content"] for body in server.bodies)
    assert first != second  # another order
    assert score(reward, ["x", "x"], groups=[0, 0]) == [0.5, 0.5]
    assert len(server.bodies) == 2


def test_listwise_that_always_ranks_by_position_is_averaged_out(faulty: Faulty) -> None:
    server = faulty(says('{"ranking": [1, 2, 3]}'))
    scores = score(JudgeListwise(judge=at(server), votes=60), ["x", "y", "z"], groups=[0] * 3)
    assert sum(scores) == pytest.approx(1.5)
    assert all(0.3 < each < 0.7 for each in scores)  # one vote would give 0, 0.5 and 1


def test_tie_break_speaks_in_tied_groups_only(toy: Toy) -> None:
    server = toy(rule=by_length)
    texts = ["x", "xx", "xxx", "xxxx"]
    completions, groups = [*texts, *texts, *texts], [0] * 4 + [1] * 4 + [2] * 4
    base = [0.1] * 4 + [0.1, 0.1, 0.1, 0.2] + [0.1, 0.1, 0.1, None]
    scores = score(JudgeTieBreak(judge=at(server)), completions, groups=groups, base_rewards=base)
    assert scores[4:] == [0.0] * 8
    assert sorted(scores[:4]) == [-1.0, -1.0, 1.0, 1.0]
    assert len(server.bodies) == 2 * 2
    assert scores[0] == -1.0
    assert scores[3] == 1.0
    moved = score(JudgeTieBreak(judge=at(server)), texts[::-1], groups=[9] * 4, base_rewards=[0.0] * 4)
    assert moved == scores[:4][::-1]


def test_tie_break_disagreement_odd_rows_and_equal_rows(toy: Toy, faulty: Faulty) -> None:
    first = JudgeTieBreak(judge=at(faulty(says('{"winner": "A"}'))))
    assert score(first, ["x", "y"], groups=[0, 0], base_rewards=[1.0, 1.0]) == [0.0, 0.0]
    server = toy(rule=by_length)
    odd = score(JudgeTieBreak(judge=at(server)), ["x", "xx", "xxx"], groups=[0] * 3, base_rewards=[1.0] * 3)
    assert sorted(odd) == [-1.0, 0.0, 1.0]
    asked = len(server.bodies)
    same = score(JudgeTieBreak(judge=at(server)), ["x"] * 4, groups=[0] * 4, base_rewards=[1.0] * 4)
    assert same == [0.0] * 4
    assert len(server.bodies) == asked
    # Of two equal rows the mean counts, whoever they met: all scores sum to zero.
    mixed = score(JudgeTieBreak(judge=at(server)), ["x", "xx", "x", "xxx"], groups=[0] * 4, base_rewards=[1.0] * 4)
    assert mixed[0] == mixed[2]
    assert sum(mixed) == pytest.approx(0.0)


def test_tie_break_alone_rows_and_failures(faulty: Faulty) -> None:
    down = JudgeTieBreak(judge=at(faulty(status(400))), unjudged="abstain")
    assert score(down, ["x", "y", "z"], groups=[0, 0, 1], base_rewards=[1.0] * 3) == [None, None, 0.0]


def test_a_flipping_judge_is_caught_by_the_order_swap(toy: Toy) -> None:
    # 15 % of 2 * 780 comparisons are wrong: both orders right 0.7225, both wrong 0.0225, else a tie.
    texts = [f"{'x' * length}{length}" for length in range(40)]
    server = toy(rule=lambda each: [float(len(text)) for text in each], flips=0.15)
    reward = JudgePairwise(judge=at(server, concurrent_requests=16), acyclic=False, normalise=False)
    scores = score(reward, texts, groups=[0] * 40)
    share = reward.counts["inconsistent"] / reward.counts["comparisons"]
    assert share == pytest.approx(2 * 0.15 * 0.85, abs=0.06)
    assert scores[-1] > scores[20] > scores[0]


@pytest.mark.parametrize("reward", [JudgeScore, JudgePairwise, JudgeListwise])
def test_a_dry_run_asks_nobody_and_counts(reward: Any) -> None:
    made = reward(judge=Endpoint(base_url="dry-run", model="m"))
    groups = {} if reward is JudgeScore else {"groups": [0, 0, 0]}
    first = score(made, ["x", "y", "z"], **groups)
    assert first == score(made, ["x", "y", "z"], **groups)
    assert all(0 <= value <= 1 for value in first)
    assert made.counts["requests"] == 2 * {JudgeScore: 3, JudgePairwise: 6, JudgeListwise: 3}[reward]
