"""Made-up arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from grpo_lightning.errors import near_matches, require, require_range
from grpo_lightning.prompts.procedural import Procedural, Split

OPERATIONS = ("+", "-", "*")


class Arithmetic(Procedural):
    """Questions such as ``3+4=`` with their results, all different.

    Each row has the columns ``prompt``, ``answer`` (text), ``operation`` (such as ``+``, or ``+*`` for three terms) and
    ``operands`` (a list of numbers). Multiplication binds more strongly than the others. The operands alone, in their
    order, decide whether a question is held out: train and held-out data share none, whatever their counts, seeds and
    operations.

    Args:
        count: Questions; by default 1000, or as many as there are where there are fewer. More than there are is an
            error that gives both numbers: of ``10 ** (digits * terms) * len(operations) ** (terms - 1)`` questions
            about four fifths are training questions.
        digits: Most digits of an operand; operands are drawn evenly from 0 to 10^digits - 1.
        operations: Some of ``+``, ``-`` and ``*``.
        terms: Operands of a question.
        seed: Seed of the draw.
        template: Text of a question, with ``{expression}`` in it; by default ``{expression}=``, and
            ``What is {expression}? Answer with the number only.`` in a chat.
        chat: Ask in a chat message of the user, with spaces around the operations; else as plain text without any.
        split: ``train`` or ``held_out``.
        negative: Whether results may be below 0.

    Example:
        >>> source = Arithmetic(count=3, digits=2, operations=["*"])
        >>> source.load()
        >>> all(row["answer"] == str(row["operands"][0] * row["operands"][1]) for row in source)
        True
    """

    name = "arithmetic"

    def __init__(
        self,
        *,
        count: int | None = None,
        digits: int = 1,
        operations: Sequence[str] = ("+",),
        terms: int = 2,
        seed: int = 0,
        template: str | None = None,
        chat: bool = False,
        split: Split = "train",
        negative: bool = True,
    ) -> None:
        super().__init__(count=count, seed=seed, split=split)
        require_range("digits", digits, low=1, high=15)  # above, a draw of 53 bits does not reach every operand
        require_range("terms", terms, low=2)
        require(bool(operations), "operations", operations, "is empty", "give some of +, - and *")
        for operation in operations:
            require(operation in OPERATIONS, "operations", operation, "is unknown", near_matches(operation, OPERATIONS))
        require(len(set(operations)) == len(operations), "operations", operations, "has one twice", "list each once")
        if template is None:
            template = "What is {expression}? Answer with the number only." if chat else "{expression}="
        require("{expression}" in template, "template", template, "does not ask anything", "put {expression} in it")
        self.digits, self.operations, self.terms = digits, list(operations), terms
        self.template, self.chat, self.negative = template, chat, negative
        # Operands lead, so that held-out ones can be told by them.
        self.identifying = slice(terms)

    @override
    def radices(self) -> list[int]:
        return [10**self.digits] * self.terms + [len(self.operations)] * (self.terms - 1)

    @override
    def allowed(self, question: tuple[int, ...]) -> bool:
        return self.negative or _value(*self._parts(question)) >= 0

    @override
    def row(self, question: tuple[int, ...]) -> dict[str, Any]:
        operands, operations = self._parts(question)
        space = " " if self.chat else ""
        words = [str(operands[0])]
        for operation, operand in zip(operations, operands[1:], strict=True):
            words += [operation, str(operand)]
        text = self.template.replace("{expression}", space.join(words))
        return {
            "prompt": [{"role": "user", "content": text}] if self.chat else text,
            "answer": str(_value(operands, operations)),
            "operation": "".join(operations),
            "operands": operands,
        }

    def _parts(self, question: tuple[int, ...]) -> tuple[list[int], list[str]]:
        return list(question[: self.terms]), [self.operations[index] for index in question[self.terms :]]


def _value(operands: Sequence[int], operations: Sequence[str]) -> int:
    """The result, products first."""
    summands = [operands[0]]
    for operation, operand in zip(operations, operands[1:], strict=True):
        if operation == "*":
            summands[-1] *= operand
        else:
            summands.append(operand if operation == "+" else -operand)
    return sum(summands)
