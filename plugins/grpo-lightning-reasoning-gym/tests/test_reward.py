from __future__ import annotations

import json
import pickle
from typing import Any, ClassVar

import pytest
from grpo_lightning_reasoning_gym.evaluable import may_be_verified
from grpo_lightning_reasoning_gym.reward import ReasoningGymReward
from grpo_lightning_reasoning_gym.source import ReasoningGymPrompts

from grpo_lightning.errors import ConfigError, DataError
from grpo_lightning.testing.suites import RewardChecks


class TestConforms(RewardChecks):
    component = ReasoningGymReward


class TestWholeConforms(RewardChecks):
    component = ReasoningGymReward
    arguments: ClassVar = {"find": "whole", "exact": True}


def entry(task: str, question: str, answer: str | None, metadata: dict[str, Any] | None = None) -> str:
    """What the source writes of a question, by hand."""
    made = {"task": task, "options": {}, "question": question, "answer": answer, "metadata": metadata or {}}
    return json.dumps(made)


SUM = entry("chain_sum", "State the final answer to the following arithmetic problem: 12 + 30 =", "42")
BACKWARD = entry("spell_backward", "Spell this word backward (example: sun -> nus): star", "rats", {"word": "star"})
ISLANDS = entry("countdown", "Make 10 of 2 and 5", "2*5", {"numbers": [2, 5], "target": 10})


@pytest.mark.parametrize(
    ("known", "answer", "score"),
    [
        (SUM, "42", 1.0),
        (SUM, "+042.0", 1.0),  # the same number
        (SUM, "It is 42", 2 / 8),  # 2 of 8 characters are the answer
        (SUM, "41", 0.0),
        (BACKWARD, "rats", 1.0),
        (BACKWARD, "RATS", 1.0),
        (BACKWARD, "rots", 3 / 4),  # three of four letters in their places
        (BACKWARD, "r", 1 / 4),
        (BACKWARD, "star", 0.0),
        (ISLANDS, "5*2", 1.0),
        (ISLANDS, "5+2", 0.05),  # its numbers, another value
        (ISLANDS, "5+5", 0.05),
        (ISLANDS, "ten", 0.0),  # a name that is no function of mathematics is not evaluated
    ],
)
def test_scores_of_three_families(known: str, answer: str, score: float) -> None:
    assert ReasoningGymReward(find="whole").score(completions=[answer], entry=[known]) == [pytest.approx(score)]


@pytest.mark.parametrize(
    ("settings", "completion", "answer"),
    [
        ({}, "so <answer> 42 </answer>.", "42"),
        ({}, "<answer>41</answer> no, <answer>42</answer>", "42"),
        ({}, "<answer>4\n2</answer>", "4\n2"),
        ({}, "<answer>42", ""),
        ({}, "42</answer>", ""),
        ({}, "42", ""),
        ({"find": "last_line"}, "I add.\n 42 \n\n", "42"),
        ({"find": "last_line"}, "", ""),
        ({"find": "whole"}, " 4 2\n", "4 2"),
        ({"pattern": r"= (\d+)"}, "1 = 1 and 2 = 42", "42"),
        ({"pattern": r"= (\d+)"}, "none", ""),
        ({"pattern": r"=(\d+)?"}, "=", ""),
    ],
)
def test_finds_the_answer(settings: dict[str, Any], completion: str, answer: str) -> None:
    reward = ReasoningGymReward(**settings)
    assert reward.answer(completion) == answer
    expected = 1.0 if answer == "42" else 0.0
    if answer in ("42", ""):
        assert reward.score(completions=[completion], entry=[SUM]) == [expected]


def test_exact_counts_full_scores_only() -> None:
    reward = ReasoningGymReward(find="whole", exact=True)
    assert reward.score(completions=["rots", "rats"], entry=[BACKWARD] * 2) == [0.0, 1.0]


def test_abstains_without_an_entry() -> None:
    reward = ReasoningGymReward(find="whole")
    assert reward.score(completions=["42", "42"], entry=[None, SUM]) == [None, 1.0]
    assert reward.score(completions=["42"]) == [None]


def test_options_reach_the_verifier() -> None:
    # puzzle24 refuses numbers above its option max_value.
    source = ReasoningGymPrompts(task="puzzle24", size=1, options={"max_value": 3})
    source.load()
    score = ReasoningGymReward(find="whole").score
    assert score(completions=["8*3*1*1"], entry=[source[0]["entry"]]) == [0.01]
    assert score(completions=[source[0]["answer"]], entry=[source[0]["entry"]]) == [1.0]


def test_malformed_entries_are_told() -> None:
    for text in ("no json", "[]", "{}", '{"task": "nothing", "options": {}}'):
        with pytest.raises(DataError, match="is no entry of the prompts reasoning_gym"):
            ReasoningGymReward(find="whole").score(completions=["1"], entry=[text])


def test_settings_are_checked() -> None:
    for settings in ({"find": "middle"}, {"pattern": "("}, {"pattern": "a"}, {"pattern": "(a)", "find": "whole"}):
        with pytest.raises(ConfigError, match=r"find|pattern"):
            ReasoningGymReward(**settings)


def test_pickles() -> None:
    reward = pickle.loads(pickle.dumps(ReasoningGymReward(pattern="(.+)")))
    assert reward.score(completions=["42"], entry=[SUM]) == [1.0]


def test_no_answer_is_run(tmp_path: Any) -> None:
    touched = tmp_path / "touched"
    attack = f"[open({str(touched)!r}, 'w')]"
    dunder = "().__class__.__base__.__subclasses__()"
    for task in ("string_insertion", "spiral_matrix", "binary_matrix", "n_queens", "simple_integration",
                 "intermediate_integration", "polynomial_multiplication", "puzzle24", "countdown"):  # fmt: skip
        source = ReasoningGymPrompts(task=task, size=1)
        source.load()
        known = [source[0]["entry"]] * 3
        scores = ReasoningGymReward(find="whole").score(completions=[attack, dunder, f"1+{attack}"], entry=known)
        assert scores == [0.0, 0.0, 0.0]
        assert may_be_verified(task, source[0]["answer"])
    assert not touched.exists()


@pytest.mark.parametrize(
    ("task", "answer", "passes"),
    [
        ("spiral_matrix", "1 2 3", True),
        ("spiral_matrix", "[1, 2, 3]", True),
        ("spiral_matrix", "list(map(str, [1]))", False),
        ("string_insertion", "['A', 'B']", True),
        ("n_queens", "[x for x in 'ab']", False),
        ("simple_integration", "-3*x**2/4 + sin(x) + C", True),
        ("simple_integration", "2.5*x", True),
        ("simple_integration", "x.diff(x)", False),
        ("simple_integration", "x . diff(x)", False),
        ("simple_integration", "exec(x)", False),
        ("simple_integration", "__import__(x)", False),
        ("simple_integration", "'x'", False),
        ("simple_integration", "lambda: x", False),
        ("simple_integration", "x+" * 600 + "x", False),
        ("chain_sum", "__import__('os')", True),  # its verifier runs nothing
    ],
)
def test_what_may_be_verified(task: str, answer: str, passes: bool) -> None:
    assert may_be_verified(task, answer) is passes
