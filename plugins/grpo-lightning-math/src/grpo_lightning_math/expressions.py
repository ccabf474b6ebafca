"""Reading answers, comparing them, and giving equal ones one name. All of it is math-verify's and SymPy's, within limits.

math-verify's own time limits use signals, which exist in the main thread only; rewards run in other threads. They are
switched off here: ``limits`` keeps what is large away, and the reward's entry has a ``timeout``.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from grpo_lightning_math.boxes import last_boxes
from grpo_lightning_math.difference import differ
from grpo_lightning_math.limits import computable, readable, terms

TAIL = 300
"""Characters at the end of a completion without a box that may hold the answer."""
MULTIPLIED_OUT = 80
"""Characters, and terms, of a rational function that is multiplied out to get its name."""

Answer = tuple[Any, ...]
"""What math-verify read: an expression and its text. Empty where there is no answer."""


def load() -> None:
    """Import math-verify and SymPy, which takes a second."""
    _library()


def boxed_answer(text: str, *, units: bool) -> Answer:
    """The answer in the last box of ``text``; empty where there is none, or it cannot be read."""
    box = last_boxes(text)
    return () if box is None else _read(box, True, units) or ()


def exact_answer(text: str, *, units: bool) -> Answer:
    """The whole of a short ``text`` as an answer, or what its last box holds; in LaTeX or as a plain expression."""
    text = text.strip()
    box = last_boxes(text)
    answer = _read(rf"\boxed{{{text}}}" if box is None else box, True, units)
    # What is too large is not searched for a smaller part that would do.
    return _read(text, False, units) or () if answer == () else answer or ()


def found_answer(text: str, *, units: bool) -> Answer:
    """The answer that math-verify finds at the end of ``text``: after words such as "answer", else the last expression."""
    tail = text.rstrip()[-TAIL:]
    # What is cut in two is no number.
    return _read(tail if len(text.rstrip()) <= TAIL else tail.partition(" ")[2], False, units) or ()


def is_expression(answer: Answer) -> bool:
    """Whether an answer holds more than its text."""
    return any(not isinstance(part, str) for part in answer)


def equal(right: Answer, answer: Answer) -> bool:
    """Whether an answer equals the right one by math-verify's rules, which are not symmetric."""
    if not answer or (is_expression(right) and is_expression(answer) and differ(right[0], answer[0])):
        return False
    return bool(_library().verify(list(right), list(answer), timeout_seconds=None))


def name_of(answer: Answer) -> str:
    """One text for equal answers; empty for no answer.

    Fractions are in lowest terms, other numbers are decimals of twelve digits, rational functions of moderate size are
    multiplied out, sets are sorted. Whatever else is equal has one name only if it is written alike.

    Example:
        >>> [name_of(exact_answer(text, units=True)) for text in ("0.5", r"\\frac{2}{4}", r"\\sqrt{8}", "(x+1)^2")]
        ['1/2', '1/2', '2.82842712475', 'x**2 + 2*x + 1']
    """
    parts = [part for part in answer if not isinstance(part, str)]
    if not parts:
        return str(answer[0]).strip() if answer else ""
    try:
        return _name(parts[0])
    except Exception:  # SymPy raises whatever it likes; an answer that cannot be simplified keeps its own form
        return str(answer[-1])


@lru_cache(maxsize=1)
def _library() -> Any:
    import math_verify

    for module in ("math_verify.parser", "math_verify.grader"):
        # It would say once that its time limits are off, which is what the timeout of the entry is for.
        logging.getLogger(module).addFilter(_not_about_timeouts)
    return math_verify


def _not_about_timeouts(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith("Timeout is disabled")


@lru_cache(maxsize=4096)
def _read(text: str, boxed: bool, units: bool) -> Answer | None:
    """What math-verify makes of a text; ``None`` where it may not be read, or not be computed with."""
    if not readable(text):
        return None
    library = _library()
    normal = library.parser.NormalizationConfig(
        basic_latex=True, units=units, malformed_operators=True, nits=True, boxed="all", equations=False
    )
    latex = library.LatexExtractionConfig(boxed_match_priority=0, normalization_config=normal)
    kinds: Sequence[Any] = (latex,) if boxed else (latex, library.ExprExtractionConfig())
    try:
        found = library.parse(text, extraction_config=kinds, parsing_timeout=None)
    except RecursionError:
        return ()
    if not all(isinstance(part, str) or computable(part) for part in found):
        return None
    return tuple(found) if is_expression(tuple(found)) or boxed else ()


def _name(expression: Any) -> str:
    import sympy

    if isinstance(expression, sympy.Eq) and expression.lhs.is_Symbol:
        return _name(expression.rhs)
    if isinstance(expression, sympy.FiniteSet):
        return "{" + ", ".join(sorted(_name(each) for each in expression.args)) + "}"
    if isinstance(expression, sympy.Tuple):
        return "(" + ", ".join(_name(each) for each in expression.args) + ")"
    if isinstance(expression, sympy.MatrixBase):
        return str([[_name(each) for each in row] for row in expression.tolist()])
    if not isinstance(expression, sympy.Expr):
        return str(expression)
    exact = sympy.nsimplify(expression.doit(), rational=True)
    if not exact.free_symbols and not exact.is_Rational and exact.is_finite:
        return f"{exact.evalf(12)}"
    simple = len(str(exact)) <= MULTIPLIED_OUT and terms(exact) <= MULTIPLIED_OUT
    return str(sympy.cancel(exact) if simple and exact.is_rational_function() else exact)
