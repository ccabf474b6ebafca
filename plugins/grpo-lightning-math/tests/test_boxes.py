from __future__ import annotations

import time

import pytest
from grpo_lightning_math.boxes import LONGEST_TEXT, after_thinking, boxes, last_boxes


@pytest.mark.parametrize(
    ("text", "contents"),
    [
        (r"\boxed{5}", ["5"]),
        (r"\boxed {5} and \fbox{6}", ["5", "6"]),
        (r"\boxed{\frac{1}{2}}", [r"\frac{1}{2}"]),
        (r"\boxed{\{1, 2\}}", [r"\{1, 2\}"]),
        (r"\boxed{\boxed{5}}", [r"\boxed{5}"]),  # the outer one
        (r"\boxed{5", []),
        (r"\boxed{ \boxed{5}", ["5"]),  # the outer one is not closed
        (r"} { \boxed{5}", ["5"]),
        (r"\boxed{}", [""]),
        (r"boxed{5}", []),
        ("", []),
    ],
)
def test_boxes(text: str, contents: list[str]) -> None:
    found = boxes(text)
    assert [box.content for box in found] == contents
    assert all(text[box.start] == "\\" and text[box.end - 1] == "}" for box in found)


def test_boxes_close_to_each_other_are_one_answer() -> None:
    assert last_boxes(r"\boxed{0} is not it, so \boxed{1}, \boxed{2}.") == r"\boxed{1}, \boxed{2}"
    assert last_boxes("none") is None


def test_thinking_is_left_out() -> None:
    assert after_thinking("<think>a</think>b") == "b"
    assert after_thinking("<think>a") == "<think>a"
    assert len(after_thinking("a" * 10**6)) == LONGEST_TEXT


def test_one_pass_over_hostile_texts() -> None:
    start = time.monotonic()
    for text in (r"\boxed{" * 3_000, r"\boxed{" * 1_500 + "}" * 1_500, "{" * 20_000, "\\" * 20_000):
        boxes(text)
    assert time.monotonic() - start < 2
