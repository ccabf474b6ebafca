from __future__ import annotations

import time

import pytest
from grpo_lightning_judge.answers import check_pattern
from grpo_lightning_judge.failures import NoVerdict
from grpo_lightning_judge.template import checked_template
from grpo_lightning_judge.verdicts import Grade, Marks, Parser, Preference, Ranking

from grpo_lightning.errors import ConfigError


@pytest.mark.parametrize(
    ("answer", "share"),
    [
        ('{"score": 7}', 0.7),
        ('It is fine.\n```json\n{"score": "7"}\n```', 0.7),
        ('First {"score": 3}, but no: {"why": {"a": 1}, "score": 10} ', 1.0),
        ('{"score": 0.0}', 0.0),
    ],
)
def test_a_grade_is_its_share_of_the_scale(answer: str, share: float) -> None:
    assert Grade(0, 10).parse(answer) == share


def test_a_scale_that_does_not_begin_at_zero() -> None:
    assert Grade(1, 5).parse('{"score": 2}') == 0.25
    assert Grade(-1, 1).parse('{"score": -0.5}') == 0.25


@pytest.mark.parametrize(
    "answer",
    ["", "8", "{'score': 8}", '{"grade": 8}', '{"score": null}', '{"score": true}', '{"score": [8]}', '{"score": 11}',
     '{"score": -1}', '{"score": NaN}', '{"score": Infinity}', '{"score": "good"}', '{"score": 8', "{" * 50_000,
     '{"a":' * 5_000, '{"score": 1e400}', '{"score": ' + "9" * 400 + "}"],
)  # fmt: skip
def test_what_holds_no_grade(answer: str) -> None:
    start = time.monotonic()
    with pytest.raises(NoVerdict):
        Grade(0, 10).parse(answer)
    assert time.monotonic() - start < 1.0


def test_a_pattern_takes_the_last_match() -> None:
    assert Grade(0, 10, r"Score: (\d+)").parse("Score: 2 at first. Score: 9.") == 0.9
    with pytest.raises(NoVerdict):
        Grade(0, 10, r"Score: (\d+)").parse('{"score": 9}')
    assert Preference(r"\b([AB])\b").parse("not A, it is B.") == "B"


@pytest.mark.parametrize(("pattern", "reason"), [("(", "no regular expression"), ("a", "0 groups"), ("(a)(b)", "2 gr")])
def test_patterns_are_checked(pattern: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        check_pattern(pattern)


def test_preferences() -> None:
    parse = Preference().parse
    assert [parse(f'{{"winner": "{word}"}}') for word in ("A", "b", " Tie ")] == ["A", "B", "tie"]
    for wrong in ('{"winner": "C"}', '{"winner": 1}', '{"winner": null}', "A"):
        with pytest.raises(NoVerdict):
            parse(wrong)


def test_a_pattern_leaves_the_words_to_the_template() -> None:
    assert Grade(0, 10, r"(\d+)").instruction == Preference(r"([AB])").instruction == ""
    (message,) = checked_template("", "{a}{b} Write A or B.", required=["a", "b"]).fill(
        {"a": "x", "b": "y"}, instruction=""
    )
    assert message["content"].endswith(">>> Write A or B.")


def test_marks() -> None:
    assert Marks(3).parse('{"marks": [1, "0", -1.0]}') == [1, 0, -1]
    for wrong in ("[1, 0]", "[1, 0, 2]", "[1, 0, 0.5]", "5", '{"a": 1}', "[1, 0, null]", "[1, 0, true]"):
        with pytest.raises(NoVerdict):
            Marks(3).parse(f'{{"marks": {wrong}}}')


def test_rankings() -> None:
    assert Ranking(3).parse('{"ranking": [2, 3, 1]}') == [1, 2, 0]
    for wrong in ("[1, 2]", "[1, 2, 2]", "[0, 1, 2]", "[1, 2, 4]", '"1 2 3"'):
        with pytest.raises(NoVerdict):
            Ranking(3).parse(f'{{"ranking": {wrong}}}')


@pytest.mark.parametrize(
    "parser", [Grade(1, 5), Preference(), Marks(4), Ranking(5)], ids=lambda each: type(each).__name__
)
def test_examples_hold_a_verdict_and_differ(parser: Parser[object]) -> None:
    assert len({str(parser.parse(parser.example(draw))) for draw in range(200)}) >= 3
    assert "JSON" in parser.instruction
