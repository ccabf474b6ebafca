from __future__ import annotations

import logging
import threading
import time
from typing import Any

import pytest
from grpo_lightning_math import MathAnswer

from grpo_lightning.errors import ConfigError, DataError


def score(completion: str, right: Any, **settings: Any) -> float | None:
    return MathAnswer(**settings).score(completions=[completion], answer=[right])[0]


@pytest.mark.parametrize(
    ("completion", "right"),
    [
        (r"So it is \boxed{\frac{2}{4}}.", "0.5"),
        ("The answer is 1/2", 0.5),
        (r"$\frac12$", "0.5"),
        (r"\boxed{0.333333}", "1/3"),
        (r"\boxed{1\frac12}", "1.5"),
        (r"\boxed{50\%}", "0.5"),
        (r"\boxed{50\%}", 50),
        ("The final answer is 1,234.", 1234),
        ("It costs $5", "5"),
        (r"\boxed{\$5}", 5),
        (r"\boxed{12 \text{ cm}}", 12),
        (r"\boxed{90^\circ}", 90),
        (r"\boxed{x^2+2x+1}", "(x+1)^2"),
        (r"\boxed{\sqrt{8}}", r"2\sqrt2"),
        (r"\boxed{5\pi}", r"5\pi"),
        (r"\boxed{2^{10}}", 1024),
        (r"\boxed{10!}", "3628800"),
        (r"\boxed{\binom{10}{5}}", 252),
        (r"\boxed{\{2,1\}}", r"\{1,2\}"),
        (r"\boxed{1} and \boxed{2}", "1, 2"),
        (r"\boxed{[0,1)}", "[0,1)"),
        (r"\boxed{(1,2)}", "(1,2)"),
        (r"\boxed{x=5}", "5"),
        (r"\boxed{5}", "x=5"),
        (r"\boxed{\text{B}}", "B"),
        (r"\boxed{\text{no solution}}", r"\text{no solution}"),
        (r"\boxed{-\infty}", r"-\infty"),
        (r"\boxed{\begin{pmatrix}1&2\\3&4\end{pmatrix}}", r"\begin{pmatrix}1&2\\3&4\end{pmatrix}"),
        (r"<think>\boxed{4}</think>\boxed{5}", 5),
        (r"\boxed{4}, no: this is wrong. \boxed{5}", 5),
        (r"\boxed{7}", r"the solution is \boxed{7}"),
        ("-3", -3),
        (r"\boxed{7}", 7.0),
    ],
)
def test_right(completion: str, right: Any) -> None:
    assert score(completion, right) == 1.0


@pytest.mark.parametrize(
    ("completion", "right"),
    [
        (r"\boxed{\frac{1}{3}}", "0.5"),
        (r"\boxed{0.33}", "1/3"),
        (r"\boxed{x^2+1}", "(x+1)^2"),
        (r"\boxed{1} \boxed{2} \boxed{3}", "2"),  # several boxes are one answer, not three tries
        (r"\boxed{-5}", 5),
        (r"<think>\boxed{5}</think>", 5),
        ("no idea", 5),
        ("", 5),
        (r"\boxed{}", 5),
        (r"\boxed{5", 5),
        (r"\boxed{4}, no: this is wrong. 5", 4.5),
        (r"\boxed{\frac{1}{0}}", 5),
    ],
)
def test_wrong(completion: str, right: Any) -> None:
    assert score(completion, right) == 0.0


def test_a_box_goes_before_the_rest() -> None:
    assert score(r"\boxed{5} not 6", 5) == 1.0
    assert score("5", 5, boxed=True) == 0.0


def test_pattern() -> None:
    settings = {"pattern": r"<answer>(.*?)</answer>"}
    assert score("<answer>3/6</answer>, not 7", "0.5", **settings) == 1.0
    assert score(r"<answer>\frac36</answer>", "0.5", **settings) == 1.0
    assert score(r"<answer>$\frac36$</answer>", "0.5", **settings) == 1.0
    assert score(r"\boxed{0.5}", "0.5", **settings) == 0.0


def test_units_can_count() -> None:
    assert score(r"\boxed{12 \text{ cm}}", "12", units=True) == 1.0
    assert score(r"\boxed{12 \text{ cm}}", "12", units=False) == 0.0


def test_parsable_answers_can_score() -> None:
    assert [score(text, 5, parsable=0.1) for text in (r"\boxed{5}", r"\boxed{6}", "hm", "")] == [1.0, 0.1, 0.0, 0.0]


def test_several_right_answers() -> None:
    assert [score(text, ["5", "x+1"]) for text in (r"\boxed{5}", r"\boxed{1+x}", r"\boxed{6}")] == [1.0, 1.0, 0.0]


def test_abstains_without_a_right_answer() -> None:
    assert score(r"\boxed{5}", None) is None


@pytest.mark.parametrize("wrong", ["", "who knows?!", [], ["5", ""], True, r"\frac{", "9^{9^{9}}", "1" * 400])
def test_right_answers_must_be_readable(wrong: Any) -> None:
    with pytest.raises(DataError, match="column"):
        score(r"\boxed{5}", wrong)


def test_equal_answers_have_one_name() -> None:
    reward = MathAnswer()
    half = [r"\boxed{0.5}", "The answer is 1/2.", r"$\frac{2}{4}$", r"\boxed{50\%}", "0.50", r"\boxed{x=\frac12}"]
    assert {reward.answer(text) for text in half} == {"1/2"}
    assert reward.answer(r"\boxed{\sqrt{8}}") == reward.answer(r"\boxed{2\sqrt2}")
    assert reward.answer(r"\boxed{(x+1)^2}") == reward.answer(r"\boxed{x^2+2x+1}")
    assert reward.answer(r"\boxed{2} or \boxed{1.0}") == reward.answer(r"\boxed{\{1,2\}}") == "{1, 2}"
    assert reward.answer("no idea") == reward.answer("") == ""


HOSTILE = [
    "[" * 1_000_000,
    r"\boxed{" * 100_000 + "1" + "}" * 100_000,
    r"\boxed{" + "{" * 100 + "1" + "}" * 100 + "}",
    r"\boxed{" + "(" * 140 + "1" + ")" * 140 + "}",
    "9**9**9",
    "9^9^9^9",
    "The answer is 9^(9^9) + 1",
    r"\boxed{9^{9^{9^9}}}",
    r"\boxed{((((9^{99})^{99})^{99})^{99})^{99}}",
    r"\boxed{99999999!}",
    r"\boxed{((9!)!)!}",
    r"\boxed{\binom{1000000}{500000}}",
    r"\boxed{\sum_{n=1}^{10000000} \frac{1}{n^3}}",
    r"\boxed{\int_0^1 \frac{\sin(x^x)}{\cos x}\,dx}",
    r"\boxed{(x+y+z+1)^{200}}",
    r"\boxed{\log_{2}(10^{10^{10}})}",
    r"\boxed{\sin(10^{10^{10}})}",
    r"\boxed{e^{e^{e^{e^{10}}}}}",
    r"\boxed{" + r"\sqrt{" * 40 + "2" + "}" * 40 + "}",
    r"\boxed{" + r"\frac{1}{1+" * 30 + "1" + "}" * 30 + "}",
    "7" * 1_000_000,
    r"\boxed{" + "7" * 5_000 + "}",
    "$a" * 100_000,
    "$$ $ " * 100_000,
    "1+" * 100_000,
    "1 " * 100_000,
    "answer " * 100_000,
    "(1" * 100_000,
    "-" * 1_000_000,
    r"\boxed{\frac{0}{0}}",
    "\\ud800\x00",
]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("right", ["5", r"x^5-3x+1 \le \cos(x)", r"\{1, 2\}"])
def test_no_completion_hangs_or_raises(right: str) -> None:
    reward = MathAnswer(parsable=0.1)
    reward.setup()
    for text in HOSTILE:
        start = time.monotonic()
        assert reward.score(completions=[text], answer=[right])[0] in (0.0, 0.1), text[:40]
        assert isinstance(reward.answer(text), str)
        assert time.monotonic() - start < 5, text[:40]


def test_works_outside_the_main_thread(caplog: pytest.LogCaptureFixture) -> None:
    found: list[float | None] = []
    with caplog.at_level(logging.WARNING):
        thread = threading.Thread(target=lambda: found.append(score(r"\boxed{\frac{7}{14}}", "1/2")))
        thread.start()
        thread.join()
    assert found == [1.0]
    assert not caplog.records  # nothing about time limits that are off


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigError, match="boxed"):
        MathAnswer(boxed=True, pattern="(.*)")
    with pytest.raises(ConfigError, match="parsable"):
        MathAnswer(parsable=2)
    with pytest.raises(ConfigError, match="pattern"):
        MathAnswer(pattern="(")
