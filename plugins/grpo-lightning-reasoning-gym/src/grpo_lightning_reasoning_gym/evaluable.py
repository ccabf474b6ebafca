"""Answers that a verifier may be handed although it evaluates them as code."""

from __future__ import annotations

import ast
import re

PYTHON = frozenset({"binary_matrix", "n_queens", "spiral_matrix", "string_insertion"})
"""Tasks whose verifiers pass an answer that is not right to Python's ``eval``."""
ALGEBRA = frozenset(
    {"countdown", "intermediate_integration", "polynomial_multiplication", "puzzle24", "simple_integration"}
)
"""Tasks whose verifiers pass an answer to sympy's ``parse_expr``, which evaluates it as Python."""
LONGEST = 1000
"""Characters of a formula."""
_FUNCTIONS = frozenset(
    {"sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"}
    | {"cot", "sec", "csc", "exp", "log", "ln", "sqrt", "Abs", "pi"}
)
_WORDS = re.compile(r"[\w\s]*")
_FORMULA = re.compile(r"[0-9A-Za-z_\s+\-*/^().,]*")
_NAME = re.compile(r"[^\W\d]\w*")
_ATTRIBUTE = re.compile(r"\.\s*[^\W\d]")


def may_be_verified(task: str, answer: str) -> bool:
    """Whether a verifier that evaluates answers can be handed this one: it holds no call but of a known function.

    For verifiers that evaluate Python, words and numbers and literals pass; for those that evaluate formulas, numbers,
    operators, single letters and the functions of school mathematics. Answers of other tasks all pass.

    Example:
        >>> may_be_verified("spiral_matrix", "[1, 2, 3]"), may_be_verified("spiral_matrix", "print(1)")
        (True, False)
        >>> may_be_verified("simple_integration", "x**2/2 + C"), may_be_verified("simple_integration", "open(x)")
        (True, False)
    """
    if task in PYTHON:
        return _WORDS.fullmatch(answer) is not None or _is_literal(answer)
    if task in ALGEBRA:
        known = all(len(name) == 1 or name in _FUNCTIONS for name in _NAME.findall(answer))
        shape = len(answer) <= LONGEST and _FORMULA.fullmatch(answer) is not None
        return shape and known and _ATTRIBUTE.search(answer) is None
    return True


def _is_literal(answer: str) -> bool:
    try:
        ast.literal_eval(answer)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return False
    return True
