from __future__ import annotations

import pytest

from grpo_lightning.errors import ConfigError
from grpo_lightning.rewards.exact_match import ExactMatch


def test_whole_completion_is_the_answer() -> None:
    scores = ExactMatch().score(completions=["7", " 7\n", "8", "", "the 7"], answer=["7"] * 5)
    assert scores == [1.0, 1.0, 0.0, 0.0, 0.0]


def test_options_change_what_is_equal() -> None:
    assert ExactMatch(strip=False).score(completions=["7", " 7"], answer=["7", "7"]) == [1.0, 0.0]
    assert ExactMatch().score(completions=["Paris"], answer=["paris"]) == [0.0]
    assert ExactMatch(ignore_case=True).score(completions=["STRASSE"], answer=["straße"]) == [1.0]


def test_last_match_of_the_pattern_counts() -> None:
    reward = ExactMatch(pattern=r"<a>(.*?)</a>")
    completions = ["<a>1</a> no, <a> 2 </a>", "<a>2</a> no, <a>1</a>", "2", ""]
    assert reward.score(completions=completions, answer=["2"] * 4) == [1.0, 0.0, 0.0, 0.0]
    assert [reward.answer(completion) for completion in completions] == ["2", "1", "", ""]


def test_no_match_is_wrong_even_where_nothing_is_right() -> None:
    assert ExactMatch(pattern=r"<a>(.*)</a>").score(completions=["", "<a></a>"], answer=["", ""]) == [0.0, 1.0]


def test_group_that_took_no_part_is_no_match() -> None:
    assert ExactMatch(pattern=r"x|(y)").score(completions=["yx"], answer=["y"]) == [0.0]


def test_abstains_where_nothing_is_known() -> None:
    assert ExactMatch().score(completions=["7", "7"], answer=[None, "7"]) == [None, 1.0]


@pytest.mark.parametrize(("right", "written"), [(7, "7"), (7.0, "7"), (7.5, "7.5"), (True, "True"), (["6", "7"], "7")])
def test_column_need_not_be_text(right: object, written: str) -> None:
    assert ExactMatch().score(completions=[written, "9"], answer=[right, right]) == [1.0, 0.0]


def test_answers_that_are_equal_vote_together() -> None:
    reward = ExactMatch(ignore_case=True)
    assert reward.answer(" Yes ") == reward.answer("yes")


def test_column_by_another_name() -> None:
    reward = ExactMatch(column="solution")
    assert reward.columns() == ["solution"]
    assert reward.score(completions=["7"], solution=["7"]) == [1.0]


@pytest.mark.parametrize("pattern", ["(", "no group", "(a)(b)"])
def test_pattern_is_checked_at_once(pattern: str) -> None:
    with pytest.raises(ConfigError, match=r"^pattern: "):
        ExactMatch(pattern=pattern)
