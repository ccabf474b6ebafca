from __future__ import annotations

import pytest
from grpo_lightning_math import MathFormat

from grpo_lightning.errors import ConfigError

BOX = r"\boxed{7}"


@pytest.mark.parametrize(
    ("part", "good", "bad"),
    [
        ("boxed", [BOX, f"x {BOX} y", f"{BOX} {BOX}", r"\boxed{} \fbox{7}"], ["7", r"\boxed{7", r"\boxed{ }", ""]),
        ("one_box", [BOX, f"x {BOX} y", r"\boxed{\boxed{7}}"], ["7", f"{BOX} {BOX}", ""]),
        ("box_last", [BOX, f"x ${BOX}$.", rf"\[{BOX}\]" + "\n", f"{BOX} {BOX}"], [f"{BOX} is it", "7", ""]),
        (
            "thinking",
            ["<think>a</think>b", "a</think>b", "\n<think>a</think>"],
            ["<think></think>b", "<think>a", "b<think>a</think>", "<think>a</think></think>", "</think><think>a", ""],
        ),
        (
            "box_after_thinking",
            [f"<think>a</think>{BOX}", f"a</think> so {BOX} {BOX}"],
            [BOX, f"<think>{BOX}</think>", f"<think>{BOX}</think>{BOX}", "<think>a</think>7", ""],
        ),
    ],
)
def test_parts(part: str, good: list[str], bad: list[str]) -> None:
    reward = MathFormat(shares={part: 1.0})
    assert reward.score(completions=good) == [1.0] * len(good)
    assert reward.score(completions=bad) == [0.0] * len(bad)


def test_mean_of_parts() -> None:
    completions = [f"So {BOX}.", f"{BOX} it is", f"{BOX} or {BOX}", "7"]
    assert MathFormat().score(completions=completions) == pytest.approx([1, 2 / 3, 2 / 3, 0])


def test_shares() -> None:
    reward = MathFormat(shares={"boxed": 3.0, "box_last": 1.0})
    assert reward.score(completions=[f"{BOX} it is"]) == [3 / 4]


def test_hostile_texts() -> None:
    reward = MathFormat(shares=dict.fromkeys(("boxed", "one_box", "box_last", "thinking", "box_after_thinking"), 1.0))
    texts = ["[" * 10**6, r"\boxed{" * 10**5, "}" * 10**6, "<think>" * 10**5, "</think>" * 10**5]
    assert reward.score(completions=texts) == [0.0] * len(texts)


@pytest.mark.parametrize("wrong", [{}, {"box": 1.0}, {"boxed": 0.0}, {"boxed": float("nan")}])
def test_settings_are_checked(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="shares"):
        MathFormat(shares=wrong)
