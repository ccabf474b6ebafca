from __future__ import annotations

from typing import Any

import pytest

from grpo_lightning.errors import ConfigError, DataError
from grpo_lightning.prompts.arithmetic import Arithmetic


def rows(**settings: Any) -> list[dict[str, Any]]:
    source = Arithmetic(**settings)
    source.load()
    return list(source)


def test_default_is_one_digit_sums() -> None:
    for row in rows(count=40):
        a, b = row["operands"]
        assert 0 <= a <= 9
        assert 0 <= b <= 9
        assert row == {"prompt": f"{a}+{b}=", "answer": str(a + b), "operation": "+", "operands": [a, b]}


def test_several_terms_put_products_first() -> None:
    drawn = rows(count=300, digits=2, operations=["+", "-", "*"], terms=3)
    assert {row["operation"] for row in drawn} == {x + y for x in "+-*" for y in "+-*"}
    for row in drawn:
        expression = row["prompt"].removesuffix("=")
        assert str(eval(expression)) == row["answer"]


def test_results_below_zero_can_be_left_out() -> None:
    assert any(row["answer"].startswith("-") for row in rows(operations=["-"]))
    assert not any(row["answer"].startswith("-") for row in rows(operations=["-"], negative=False))


def test_chat() -> None:
    row = rows(count=1, digits=2, chat=True)[0]
    a, b = row["operands"]
    text = f"What is {a} + {b}? Answer with the number only."
    assert row["prompt"] == [{"role": "user", "content": text}]


def test_template() -> None:
    row = rows(count=1, template="{expression} is {x}")[0]
    assert row["prompt"] == "{}+{} is {{x}}".format(*row["operands"])


def test_held_out_operands_are_never_trained_on_whatever_the_operation() -> None:
    trained = {tuple(row["operands"]) for row in rows(operations=["+"], seed=1)}
    held_out = {tuple(row["operands"]) for row in rows(operations=["-", "*"], split="held_out")}
    assert len(trained | held_out) == 100
    assert not trained & held_out


def test_too_small_a_space_names_both_numbers() -> None:
    available = len(rows())
    with pytest.raises(DataError, match=rf"^count: 1000 is more than the {available} different questions"):
        rows(count=1000)


@pytest.mark.parametrize(
    ("setting", "settings"),
    [
        ("digits", {"digits": 0}),
        ("terms", {"terms": 1}),
        ("operations", {"operations": []}),
        ("operations", {"operations": ["/"]}),
        ("operations", {"operations": ["+", "+"]}),
        ("template", {"template": "how much?"}),
        ("split", {"split": "validation"}),
    ],
)
def test_settings_are_checked(setting: str, settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=rf"^{setting}: "):
        Arithmetic(**settings)
