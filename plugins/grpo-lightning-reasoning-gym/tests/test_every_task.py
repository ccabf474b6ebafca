"""Every task of reasoning-gym: its rows, its verifier, and where it is odd."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from itertools import islice
from typing import Any

import numpy as np
import pytest
from grpo_lightning_reasoning_gym.candidates import ORDER_DEPENDENT, candidates
from grpo_lightning_reasoning_gym.entry_json import from_json, to_json
from grpo_lightning_reasoning_gym.reward import ReasoningGymReward
from grpo_lightning_reasoning_gym.source import ReasoningGymPrompts
from grpo_lightning_reasoning_gym.tasks import level_count, task_names

from grpo_lightning.errors import RewardError

TASKS = task_names()
SLOW = {"knight_swap", "sokoban"}
"""Tasks that take a second or so for a question."""


def coloured(metadata: dict[str, Any]) -> str:
    return json.dumps(metadata["possible_answer"])


NO_ANSWER = {
    "boxnet": None,  # many plans are right, and it gives none
    "graph_color": coloured,
    "propositional_logic": lambda metadata: metadata["example_answer"],
    "rubiks_cube": lambda metadata: metadata["example_correct_answer"],
    "rush_hour": None,  # many sequences of moves are right, and it gives none
}
"""Tasks whose rows have no known answer, and where their metadata hold one that is right."""
RAISE_ON_OTHER_TEXT = {"prime_factorization": "hello", "boxnet": "0", "coin_flip": "1e999"}
"""Tasks whose verifiers raise for some answers, with one."""
LEVELS_THAT_FAIL = {
    "caesar_cipher": [2, 3],
    "knight_swap": [0, 1, 2, 3, 4],
    "modulo_grid": [1],
    "rubiks_cube": [4],
    "survo": [2, 3],
}
"""Levels that reasoning-gym's own curriculum gives options for which the task then refuses."""


def source(task: str, **arguments: Any) -> ReasoningGymPrompts:
    made = ReasoningGymPrompts(task=task, **({"size": 1 if task in SLOW else 3} | arguments))
    made.load()
    return made


def right_answer(row: dict[str, Any]) -> str | None:
    if row["answer"] is not None:
        return str(row["answer"])
    find = NO_ANSWER[row["task"]]
    return None if find is None else find(from_json(row["entry"])["metadata"])


@pytest.mark.parametrize("task", TASKS)
def test_own_right_answer_scores_one(task: str) -> None:
    rows = source(task)
    for index in range(len(rows)):
        row = rows[index]
        answer = right_answer(row)
        if answer is None:
            assert task in ("boxnet", "rush_hour")
            continue
        assert ReasoningGymReward(find="whole").score(completions=[answer], entry=[row["entry"]]) == [1.0], answer
        tagged = f"I think\n<answer>{answer}</answer>"
        assert ReasoningGymReward().score(completions=[tagged], entry=[row["entry"]]) == [1.0]


@pytest.mark.parametrize("task", TASKS)
def test_entries_come_back_from_json_as_they_were(task: str) -> None:
    stream = candidates(task, {}, 3)
    for entry in islice(stream, 1 if task in SLOW else 3):
        again = from_json(to_json(entry))
        assert again == entry
        assert shape(again) == shape(entry)
    stream.close()  # type: ignore[attr-defined]


def shape(value: Any) -> Any:
    """The types in a value; subclasses such as texts that are members of an enumeration count as what they extend."""
    if isinstance(value, dict):
        return [(shape(key), shape(each)) for key, each in value.items()]
    if isinstance(value, list | tuple):
        return [type(value).__name__, *map(shape, value)]
    return next((each.__name__ for each in (bool, int, float, str) if isinstance(value, each)), type(value).__name__)


def test_only_these_have_no_answer() -> None:
    rest = [task for task in TASKS if task not in SLOW]
    assert {task for task in rest if source(task, size=1)[0]["answer"] is None} == set(NO_ANSWER)


def test_enumerations_are_set_by_their_texts() -> None:
    row = source("word_sorting", size=1, options={"transformation": "uppercase"})[0]
    assert row["answer"] == row["answer"].upper()


@pytest.mark.parametrize("task", RAISE_ON_OTHER_TEXT)
def test_what_a_verifier_raises_is_told_with_task_and_answer(task: str) -> None:
    answer = RAISE_ON_OTHER_TEXT[task]
    with pytest.raises(RewardError, match=f"the verifier of {task} raised .* for the answer '{answer}'"):
        ReasoningGymReward(find="whole").score(completions=[answer], entry=[source(task)[0]["entry"]])


@pytest.mark.parametrize("task", [task for task in TASKS if task not in RAISE_ON_OTHER_TEXT])
def test_other_answers_score_between_none_and_all(task: str) -> None:
    entry = source(task, size=1)[0]["entry"]
    wrong = [
        "hello",
        "0",
        "-1",
        "1 2 3",
        "[",
        '{"a":',
        "[1, 2]",
        "nan",
        "∞",
        "a, b",
        "1/0",
        "(x",
        "1e9",
        "\n\n",
        "A" * 300,
    ]
    scores = ReasoningGymReward(find="whole").score(completions=wrong, entry=[entry] * len(wrong))
    assert all(score is not None and 0.0 <= score <= 1.0 for score in scores)


@pytest.mark.parametrize("task", LEVELS_THAT_FAIL)
def test_levels_that_a_task_refuses_are_told(task: str) -> None:
    for level in range(level_count(task)):
        prompts = ReasoningGymPrompts(task=task, level=level, size=1)
        if level in LEVELS_THAT_FAIL[task]:
            with pytest.raises(ValueError, match=f"level: {level} .* {task}"):
                prompts.load()
        elif task != "rubiks_cube":
            prompts.load()


CHECKSUM = """
import hashlib, json, sys
from itertools import islice
from grpo_lightning_reasoning_gym.candidates import candidates
for task in sys.argv[1:]:
    stream = candidates(task, {}, 5)
    print(task, hashlib.sha256(repr(list(islice(stream, 4))).encode()).hexdigest())
    stream.close()
"""


def checksums(tasks: list[str], hash_seed: str) -> str:
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    return subprocess.run(
        [sys.executable, "-c", CHECKSUM, *tasks], env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_questions_are_the_same_in_every_process() -> None:
    tasks = [task for task in TASKS if task not in SLOW]
    assert checksums(tasks, "1") == checksums(tasks, "2")


def test_order_dependent_tasks_are_tasks() -> None:
    assert set(TASKS) >= ORDER_DEPENDENT


def test_tasks_leave_random_numbers_and_output_alone(capfd: pytest.CaptureFixture[str]) -> None:
    random.seed(1)
    np.random.seed(1)
    before = random.getstate(), np.random.get_state()[1].tobytes()  # type: ignore[index,union-attr]
    for task in ("pool_matrix", "bf", "codeio", "gsm_symbolic"):
        source(task)
    assert (random.getstate(), np.random.get_state()[1].tobytes()) == before  # type: ignore[index,union-attr]
    assert capfd.readouterr().out == ""
