from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_lightning.errors import ConfigError, RewardError
from grpo_lightning.rewards.composer import check_entries, compose, entry_name, turn_rewards
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.exact_match import ExactMatch
from grpo_lightning.rewards.function import FunctionReward
from grpo_lightning.rewards.scores import Scores

Row = list[float | None]
NAN = "nan"


def entry(name: str, weight: float = 1.0, **settings: Any) -> RewardEntry:
    return RewardEntry(reward=ExactMatch(), name=name, weight=weight, **settings)


def scores(applies: dict[str, list[bool]] | None = None, **raw: Row) -> Scores:
    everywhere = {name: [True] * len(row) for name, row in raw.items()}
    return Scores(raw, {name: [None] * len(row) for name, row in raw.items()}, everywhere | (applies or {}), {})


def rewards(entries: list[RewardEntry], given_scores: Scores) -> list[Any]:
    return [NAN if math.isnan(value) else value for value in compose(entries, given_scores).rewards_R.tolist()]


def test_weighted_sum() -> None:
    entries = [entry("a", 2.0), entry("b", -0.5)]
    assert rewards(entries, scores(a=[1.0, 0.0], b=[1.0, 4.0])) == [1.5, -2.0]


def test_gates_multiply() -> None:
    entries = [entry("a", 2.0), entry("g", gate=True), entry("h", gate=True)]
    assert rewards(entries, scores(a=[1, 1, 1], g=[1, 0, 0.5], h=[1, 1, -1.0])) == [2.0, 0.0, -1.0]


def test_what_is_only_logged_does_not_count() -> None:
    entries = [entry("a"), entry("b", 0.0), entry("c", log_only=True), entry("d", log_only=True, gate=True)]
    composed = compose(entries, scores(a=[1.0], b=[5.0], c=[None], d=[0.0]))
    assert composed.rewards_R.tolist() == [1.0]
    assert composed.components["b"].tolist() == [5.0]
    assert math.isnan(composed.components["c"].item())


@pytest.mark.parametrize(
    ("on_abstain", "expected"),
    [("skip", 3.0), ("zero", 3.0), ("renormalise", 3.0 * (1 + 3) / 3)],
)
def test_an_entry_that_abstains(on_abstain: Any, expected: float) -> None:
    entries = [entry("a", 1.0, on_abstain=on_abstain), entry("b", 3.0)]
    assert rewards(entries, scores(a=[None, 1.0], b=[1.0, 1.0])) == [expected, 4.0]


def test_renormalising_keeps_the_sign_of_the_others() -> None:
    # 1 - 0.5 with 4 missing: magnitudes 5.5 / 1.5; signed weights would give 4.5 / 0.5.
    entries = [entry("a", 1.0), entry("b", -0.5), entry("c", 4.0, on_abstain="renormalise")]
    assert rewards(entries, scores(a=[1.0], b=[1.0], c=[None])) == pytest.approx([0.5 * 5.5 / 1.5])
    # Weights that cancel are no division by zero.
    entries = [entry("a", 1.0), entry("b", -1.0), entry("c", 1.0, on_abstain="renormalise")]
    assert rewards(entries, scores(a=[1.0], b=[0.0], c=[None])) == [1.5]


def test_a_row_whose_weighted_entries_all_abstain_abstains() -> None:
    entries = [entry("a"), entry("b", on_abstain="renormalise"), entry("g", gate=True)]
    assert rewards(entries, scores(a=[None, None], b=[None, 2.0], g=[1.0, 1.0])) == [NAN, 2.0]
    assert rewards([entry("a", on_abstain="zero")], scores(a=[None])) == [0.0]


def test_a_gate_that_abstains_passes_or_closes() -> None:
    given_scores = scores(a=[2.0], g=[None])
    assert rewards([entry("a"), entry("g", gate=True)], given_scores) == [2.0]
    assert rewards([entry("a"), entry("g", gate=True, on_abstain="zero")], given_scores) == [0.0]


def test_an_entry_that_does_not_apply_has_no_weight_in_the_row() -> None:
    entries = [
        entry("a", 1.0, on_abstain="renormalise"),
        entry("b", 1.0),
        entry("c", 8.0, on_abstain="zero"),
        entry("g", gate=True, on_abstain="zero"),
    ]
    applies = {"c": [False, True], "g": [False, True]}
    given_scores = scores(applies, a=[None, None], b=[1.0, 1.0], c=[None, None], g=[None, 1.0])
    # Row 0: (1 + 1) / 1 times 1. Row 1: c counts 0 with weight 8: (1 + 1 + 8) / (1 + 8) times 1.
    assert rewards(entries, given_scores) == [2.0, pytest.approx(10 / 9)]


def test_a_row_that_no_weighted_entry_applies_to_abstains() -> None:
    entries = [entry("a"), entry("g", gate=True)]
    assert rewards(entries, scores({"a": [False, True]}, a=[None, 1.0], g=[1.0, 1.0])) == [NAN, 1.0]


def test_gates_alone_are_the_reward() -> None:
    entries = [entry("g", gate=True), entry("h", gate=True)]
    assert rewards(entries, scores(g=[2.0, None, None], h=[3.0, 0.5, None])) == [6.0, 0.5, NAN]


def test_no_rows() -> None:
    assert compose([entry("a")], scores(a=[])).rewards_R.shape == (0,)


def test_a_sum_that_overflows_is_an_error() -> None:
    with pytest.raises(RewardError, match="the composed reward of row 1 is not finite: a 0, b 1e"):
        compose([entry("a"), entry("b", 1e10)], scores(a=[0.0, 0.0], b=[0.0, 1e300]))


ROW = st.lists(st.one_of(st.none(), st.integers(-4, 4).map(float)), min_size=4, max_size=4)
POLICY = st.sampled_from(["skip", "renormalise", "zero"])


@given(
    st.lists(st.tuples(st.sampled_from([-1.0, 0.5, 1.0, 2.0]), POLICY), min_size=3, max_size=3),
    ROW,
    st.lists(st.booleans(), min_size=4, max_size=4),
    st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_against_the_definition(weighted: list[tuple[float, Any]], row: Row, applies: list[bool], gate: bool) -> None:
    row = [score if asked else None for score, asked in zip(row, applies, strict=True)]
    entries = [entry(name, weight, on_abstain=policy) for name, (weight, policy) in zip("abc", weighted, strict=True)]
    names = ["a", "b", "c"]
    if gate:
        entries.append(entry("g", gate=True))
        names.append("g")
    total, all_weights, present, left_out = 0.0, 0.0, 0.0, False
    for (weight, policy), score, asked in zip(weighted, row, applies, strict=False):
        if not asked:
            continue
        all_weights += abs(weight)
        if score is None and policy != "zero":
            left_out |= policy == "renormalise"
            continue
        present += abs(weight)
        total += weight * (score or 0.0)
    expected: Any = NAN
    if present:
        expected = total * (all_weights / present if left_out else 1.0)
        if gate and row[3] is not None:
            expected *= row[3]
        expected = pytest.approx(expected)
    given_scores = scores(
        {name: [asked] for name, asked in zip("abcg", applies, strict=True)},
        **{name: [score] for name, score in zip("abcg", row, strict=True)},
    )
    assert rewards(entries, given_scores) == [expected]


def test_names() -> None:
    def polite(completions: list[str]) -> list[float]:
        return []

    assert entry_name(RewardEntry(reward=ExactMatch())) == "exact_match"
    assert entry_name(RewardEntry(reward=FunctionReward(function=polite))) == "polite"
    assert entry_name(RewardEntry(reward=ExactMatch(), name="mine")) == "mine"


def test_the_list_as_a_whole_is_checked() -> None:
    check_entries([entry("a"), entry("b", log_only=True)], "model.rewards")
    check_entries([entry("g", gate=True)], "model.rewards")
    with pytest.raises(ConfigError, match=r"^model\.rewards: \[\] holds no reward"):
        check_entries([], "model.rewards")
    with pytest.raises(ConfigError, match="'a' is the name of 2 rewards"):
        check_entries([entry("a"), entry("b"), entry("a")], "model.rewards")
    for only_logged in (entry("a", log_only=True), entry("a", 0.0), entry("a", gate=True, log_only=True)):
        with pytest.raises(ConfigError, match="are all only logged"):
            check_entries([only_logged], "model.rewards")


def test_weights_are_those_of_the_sum() -> None:
    """Entry a abstains in row 1 and is made up for by b; c applies to row 0 only; gates and logged entries have none."""
    entries = [
        entry("a", 1.0, on_abstain="renormalise"), entry("b", 3.0), entry("c", -2.0), entry("g", gate=True),
        entry("l", log_only=True),
    ]  # fmt: skip
    given_scores = scores({"c": [True, False]}, a=[5.0, None], b=[1.0, 1.0], c=[2.0, None], g=[0.5, 2.0], l=[9.0, 9.0])
    composed = compose(entries, given_scores)
    found = {name: each.tolist() for name, each in composed.weights.items()}
    assert found == {"a": [1.0, 0.0], "b": [3.0, 4.0], "c": [-2.0, 0.0], "g": [0.0, 0.0], "l": [0.0, 0.0]}
    assert composed.factor_R.tolist() == [0.5, 2.0]
    for row, reward in enumerate(composed.rewards_R.tolist()):
        seen = sum(
            float(composed.weights[name][row]) * float(each[row])
            for name, each in composed.components.items()
            if not math.isnan(float(each[row]))
        )
        assert reward == seen * float(composed.factor_R[row])


def test_a_turn_earns_its_scores_and_the_last_one_all_else() -> None:
    """Two turns scored one by one at weight 2, a whole-row score at weight 1, and a gate of a half."""
    entries = [entry("turns", 2.0), entry("row"), entry("gate", gate=True)]
    given_scores = scores(turns=[4.0, None, 1.0], row=[1.0, None, 3.0], gate=[0.5, 1.0, 1.0])
    given_scores.turn_scores["turns"] = [[1.0, None, 3.0], None, [1.0]]
    composed = compose(entries, given_scores)
    earned = turn_rewards(given_scores, composed, [3, 2, 1])
    assert earned == [[1.0, 0.0, 3.0 + 0.5], [0.0, 0.0], [2.0 + 3.0]]
    assert [sum(each) for each in earned][::2] == composed.rewards_R.tolist()[::2]
