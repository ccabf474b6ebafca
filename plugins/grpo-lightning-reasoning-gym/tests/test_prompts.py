from __future__ import annotations

import pickle
from typing import Any, ClassVar

import pytest
from grpo_lightning_reasoning_gym.entry_json import from_json
from grpo_lightning_reasoning_gym.source import ReasoningGymPrompts
from grpo_lightning_reasoning_gym.split import is_held_out, shared_prompts
from grpo_lightning_reasoning_gym.tasks import option_defaults

import grpo_lightning
from grpo_lightning.errors import ConfigError, DataError
from grpo_lightning.testing.suites import PromptsChecks

ONE_DIGIT = {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1}
"""Sums and differences of two digits: 10 * 10 * 2 questions."""


class TestConforms(PromptsChecks):
    component = ReasoningGymPrompts


class TestMixtureConforms(PromptsChecks):
    component = ReasoningGymPrompts
    arguments: ClassVar = {"tasks": [{"task": "gcd"}, {"task": "lcm", "level": 1}], "size": 20, "system": "direct"}


def source(**arguments: Any) -> ReasoningGymPrompts:
    made = ReasoningGymPrompts(**arguments)
    made.load()
    return made


def rows(made: ReasoningGymPrompts) -> list[dict[str, Any]]:
    return [made[index] for index in range(len(made))]


def questions(made: ReasoningGymPrompts) -> set[str]:
    return {row["prompt"] for row in rows(made)}


def test_short_name_is_known_once_the_package_is_installed() -> None:
    assert isinstance(grpo_lightning.create("prompts", "reasoning_gym", task="gcd"), ReasoningGymPrompts)


def test_small_space_is_divided_without_a_shared_question() -> None:
    train = source(task="chain_sum", options=ONE_DIGIT)
    held_out = source(task="chain_sum", options=ONE_DIGIT, split="held_out", seed=1)
    assert shared_prompts(train, held_out) == 0
    assert len(train) + len(held_out) == 200  # every one of them was found
    assert all(is_held_out(question) for question in questions(held_out))
    assert 20 <= len(held_out) <= 60  # a fifth, within four standard deviations
    assert train.repeated > 0


def test_neighbouring_seeds_draw_apart() -> None:
    # reasoning-gym's own seeds 0 and 1 share all rows but one.
    first, second = (source(task="chain_sum", size=100, seed=seed, split="any") for seed in (0, 1))
    assert shared_prompts(first, second) <= 5


def test_fewer_rows_are_a_beginning_of_more() -> None:
    for task in ("chain_sum", "acre", "gsm_symbolic", "list_functions"):
        assert rows(source(task=task, size=3)) == rows(source(task=task, size=7))[:3]


def test_more_than_there_are_is_an_error_with_both_numbers() -> None:
    with pytest.raises(DataError, match=r"size: 500 is more than the 1\d\d different questions that chain_sum gave"):
        source(task="chain_sum", options=ONE_DIGIT, size=500)


def test_mixture_has_its_shares_in_every_beginning() -> None:
    tasks = [{"task": "gcd", "weight": 3}, {"task": "spell_backward"}]
    names = [row["task"] for row in rows(source(tasks=tasks, size=40))]
    for end in range(1, 41):
        assert abs(names[:end].count("gcd") - 0.75 * end) < 1
    assert names.count("gcd") == 30


def test_level_sets_options_and_options_go_before_it() -> None:
    def options(**arguments: Any) -> dict[str, Any]:
        set_ones = from_json(source(task="chain_sum", size=1, **arguments)[0]["entry"])["options"]
        return option_defaults("chain_sum") | set_ones

    assert options(level=0) | {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1} == options(level=0)
    assert options(level=2)["max_terms"] == 4
    assert options(level=2)["min_terms"] == 2
    assert options(level=2, range_mode="upper_bound")["min_terms"] == 4
    assert options(level=2, options={"max_terms": 3})["max_terms"] == 3
    assert options(level={"num_digits": 3}) | {"max_terms": 2, "max_digits": 4} == options(level={"num_digits": 3})
    assert source(task="chain_sum", size=1, level=2)[0]["level"] == 2


def test_chat_system_and_template() -> None:
    plain = source(task="gcd", size=1)[0]["prompt"]
    assert source(task="gcd", size=1, template="Q: {question}\nA:")[0]["prompt"] == f"Q: {plain}\nA:"
    assert source(task="gcd", size=1, chat=True)[0]["prompt"] == [{"role": "user", "content": plain}]
    asked = source(task="gcd", size=1, system="Be brief.")[0]["prompt"]
    assert asked == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": plain}]
    assert "<answer>" in source(task="gcd", size=1, system="direct")[0]["prompt"][0]["content"]


def test_order_dependent_task_comes_from_another_process() -> None:
    assert rows(source(task="ransom_note", size=3)) == rows(source(task="ransom_note", size=3))


def test_pickles_before_and_after_loading() -> None:
    made = source(task="gcd", size=3)
    assert rows(pickle.loads(pickle.dumps(made))) == rows(made)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "task: None is missing"),
        ({"task": "gcd", "tasks": [{"task": "gcd"}]}, "task: 'gcd' is set beside tasks"),
        ({"tasks": [{"taks": "gcd"}]}, r"tasks\[0\]: 'taks' is no setting of a task; did you mean 'task'"),
        ({"tasks": [{"task": "gcd", "weight": 0}]}, r"tasks\[0\].weight: 0 is outside"),
        ({"tasks": [{"weight": 1}]}, r"tasks\[0\].task: None is missing"),
        ({"task": "gcd", "split": "test"}, "split: 'test' is no split"),
        ({"task": "gcd", "size": 0}, "size: 0 is no number of rows"),
        ({"task": "gcd", "level": -1}, "level: -1 is no level"),
        ({"task": "gcd", "level": {"value": -1}}, "level.value: -1 is no level"),
        ({"task": "gcd", "template": "?"}, "template: .* does not ask anything"),
        ({"task": "gcd", "options": {"seed": 3}}, "options.seed: 3 is set for all tasks at once; set seed beside"),
        ({"task": "gcd", "range_mode": "all"}, "range_mode: 'all' is no mode"),
    ],
)
def test_constructor_names_what_is_wrong(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ReasoningGymPrompts(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"task": "chain_sums"}, "task: 'chain_sums' is no task of reasoning-gym; did you mean 'chain_sum'"),
        ({"task": "composite"}, "task: 'composite' is no task"),
        (
            {"task": "gcd", "options": {"max_numbrs": 3}},
            "options.max_numbrs: 3 is no option of gcd; did you mean 'max_num",
        ),
        ({"task": "gcd", "options": {"min_numbers": 0}}, "options: .* gives options that gcd refuses .*AssertionError"),
        ({"task": "gcd", "level": 99}, "level: 99 is no level of gcd; set 0 to 3"),
        ({"task": "gcd", "level": {"valu": 1}}, "level.valu: 1 is a level of nothing in gcd; did you mean 'value'"),
        ({"task": "gcd", "level": {"value": 99}}, "level.value: 99 is no level of it in gcd"),
        ({"task": "acre", "level": 0}, "level: 0 is a level, but acre has none"),
        ({"task": "knight_swap", "level": 0}, "level: 0 .* knight_swap"),
        ({"tasks": [{"task": "gcd"}, {"task": "lmc"}]}, r"tasks\[1\].task: 'lmc' is no task"),
        ({"task": "gcd", "system": "dirct"}, "system: 'dirct' is no system prompt .* 'direct'"),
    ],
)
def test_loading_names_what_is_wrong(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        source(**arguments)
