"""Equality of mathematical answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from typing_extensions import override

from grpo_lightning.errors import ConfigError, DataError, require_range
from grpo_lightning.rewards.base import Reward
from grpo_lightning.rewards.extraction import compile_pattern, last_capture
from grpo_lightning_math import expressions
from grpo_lightning_math.boxes import after_thinking
from grpo_lightning_math.limits import LONGEST_ANSWER


class MathAnswer(Reward):
    r"""1 if the answer equals a right one by math-verify, ``parsable`` if it is another one, 0 if there is none.

    The answer is what ``pattern`` captures, else what the last ``\boxed{}`` holds, else what math-verify finds near the end:
    what follows words such as "final answer is", or the last expression. Boxes close to each other are one answer of several
    parts. Only what follows the last ``</think>`` is looked at. Answers may be LaTeX or plain expressions, numbers, sets,
    tuples, intervals, matrices or equations. By math-verify's rules ``50\%`` equals both 50 and 1/2, and decimals are
    compared to six places.

    An answer of more than 300 characters, of more than 15 nested brackets, that holds an integral, a sum, a product, a limit or
    a derivative, or whose powers and factorials are too large to compute, counts as none. What is left may still take long: set
    the entry's ``timeout``, and ``isolation: process`` for a hard end.

    Source: Kydlíček, Math-Verify, https://github.com/huggingface/Math-Verify.

    Args:
        column: Column of the right answer: text or a number; a list holds several right answers, of which one is enough.
            The reward abstains where it is ``None``.
        boxed: Only a box counts.
        pattern: Regular expression with one group: the answer is what its last match captured.
        units: Leave out units: ``12 cm`` is ``12``.
        parsable: Score of an answer that can be read and is wrong.

    Example:
        >>> reward = MathAnswer(parsable=0.1)
        >>> reward.score(completions=[r"So \boxed{\frac{2}{4}}.", "The answer is 3.", "who knows"], answer=["0.5"] * 3)
        [1.0, 0.1, 0.0]
    """

    name = "math_answer"
    example_columns: ClassVar[dict[str, list[Any]]] = {"answer": ["12", r"\frac{1}{2}", 7, ["x=3", "3"], None]}

    def __init__(
        self,
        *,
        column: str = "answer",
        boxed: bool = False,
        pattern: str | None = None,
        units: bool = True,
        parsable: float = 0.0,
    ) -> None:
        if boxed and pattern is not None:
            raise ConfigError("boxed", boxed, "leaves a pattern nothing to find", "set boxed or pattern, not both")
        require_range("parsable", parsable, low=0, high=1)
        self.column, self.boxed, self.units, self.parsable = column, boxed, units, parsable
        self.pattern = None if pattern is None else compile_pattern(pattern, groups=1)

    @override
    def setup(self) -> None:
        expressions.load()

    @override
    def columns(self) -> list[str]:
        return [self.column]

    @override
    def score(self, *, completions: Sequence[str], **columns: Sequence[Any]) -> list[float | None]:
        """One score a row: 1, ``parsable`` or 0, or ``None`` where there is no right answer.

        Raises:
            DataError: If a right answer cannot be read as mathematics.
        """
        expected = columns[self.column]
        return [self._score(completion, right) for completion, right in zip(completions, expected, strict=True)]

    @override
    def answer(self, completion: str) -> str:
        """The answer in one form for all equal ones: ``0.5``, ``1/2`` and ``50%`` are ``1/2``; empty where there is none."""
        return expressions.name_of(self._found(completion))

    def _score(self, completion: str, right: Any) -> float | None:
        if right is None:
            return None
        accepted = [self._right(each) for each in (right if isinstance(right, list | tuple) else [right])]
        if not accepted:
            raise DataError("column", right, f"in column {self.column!r} holds no answer", "fill it, or leave it null")
        found = self._found(completion)
        if any(expressions.equal(each, found) for each in accepted):
            return 1.0
        return self.parsable if expressions.is_expression(found) else 0.0

    def _right(self, value: Any) -> expressions.Answer:
        answer = () if isinstance(value, bool) else expressions.exact_answer(str(value), units=self.units)
        if not expressions.is_expression(answer):
            reason = f"in column {self.column!r} cannot be read as mathematics"
            fix = f"mend it; it may be LaTeX or an expression of up to {LONGEST_ANSWER} characters"
            raise DataError("column", value, reason, fix)
        return answer

    def _found(self, completion: str) -> expressions.Answer:
        text = after_thinking(completion)
        if self.pattern is not None:
            captured = last_capture(self.pattern, text)
            return () if captured is None else expressions.exact_answer(captured, units=self.units)
        if self.boxed or r"\boxed" in text or r"\fbox" in text:
            return expressions.boxed_answer(text, units=self.units)
        return expressions.found_answer(text, units=self.units)
