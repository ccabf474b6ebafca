"""What may be read and computed: answers beyond it would take for ever, or all memory, and count as none.

Python's arithmetic cannot be interrupted from another thread, so ``9^{9^9}`` must not be begun. Texts are judged before
they are parsed, and expressions, which the parser does not evaluate, before they are compared.
"""

from __future__ import annotations

import math
import re
from typing import Any

LONGEST_ANSWER = 300
"""Characters."""
DEEPEST = 15
"""Brackets within brackets."""
LARGEST_EXPONENT = 10_000.0
MOST_TERMS = 5_000
"""Terms of an expression that is multiplied out."""
MOST_DIGITS = 3_000.0
LARGEST_FACTORIAL = 1_000.0
MOST_NODES = 150
"""Nodes of an expression's tree."""

_COMPUTED = re.compile(r"\\[dt]?binom|\\choose|\\gcd|\\lcm|\\det|\\operatorname|\\begin|gcd|lcm")
"""What the parser evaluates at once: it may hold small numbers, and no powers."""
_GROWS = re.compile(r"\^|!|\*\*|\d{5}")
_REFUSED = re.compile(
    r"//|\\operatorname\s*\{\s*(?!(?:gcd|lcm|sin|cos|tan|log|ln)\b)|(?:\||\\rvert|\\right\s*\||\\vert)\s*_"
)
"""Floor division and values at a place, which are evaluated at once, and commands that compute with matrices."""


def readable(text: str) -> bool:
    """Whether a text may be parsed: short, not deep, and with nothing large that the parser would evaluate.

    Example:
        >>> readable("(1+2)/3"), readable("[" * 100), readable(r"\\\\binom{10^9}{5}")
        (True, False, False)
    """
    if len(text) > LONGEST_ANSWER or _REFUSED.search(text):
        return False
    depth = deepest = 0
    for character in text:
        if character in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in ")]}":
            depth -= 1
    return deepest <= DEEPEST and not (_COMPUTED.search(text) and _GROWS.search(text))


class _TooLarge(Exception):  # noqa: N818 - never leaves this file
    pass


def computable(expression: Any) -> bool:
    """Whether an expression may be evaluated and compared: bounded in size, powers, factorials and digits.

    What is no number (0/0, 1/0) is refused too. Integrals, sums, products, limits and derivatives are refused: an
    answer is their value.
    """
    import sympy

    unsolved = (sympy.Integral, sympy.Sum, sympy.Product, sympy.Limit, sympy.Derivative)
    try:
        for count, node in enumerate(sympy.preorder_traversal(expression)):
            if count > MOST_NODES or isinstance(node, unsolved) or node in (sympy.nan, sympy.zoo):
                return False
            _check(node, sympy)
            if isinstance(node, sympy.Expr):
                _bound(terms(node), MOST_TERMS)
    except (_TooLarge, RecursionError, OverflowError):
        return False
    return True


def _check(node: Any, sympy: Any) -> None:
    """Raise unless a node of a tree is small."""
    if isinstance(node, sympy.factorial | sympy.factorial2 | sympy.subfactorial):
        _bound(_digits(node.args[0], sympy), math.log10(LARGEST_FACTORIAL))
    elif isinstance(node, sympy.Pow | sympy.exp):
        base, exponent = node.args if isinstance(node, sympy.Pow) else (sympy.E, node.args[0])
        size = _digits(exponent, sympy)
        _bound(size, math.log10(LARGEST_EXPONENT))
        _bound(_digits(base, sympy) * 10**size, MOST_DIGITS)


def terms(node: Any) -> int:
    """An upper bound of the terms that an expression of SymPy's has when it is multiplied out."""
    import sympy

    if isinstance(node, sympy.Add):
        return sum(terms(part) for part in node.args)
    if isinstance(node, sympy.Mul):
        return math.prod(terms(part) for part in node.args)
    if isinstance(node, sympy.Pow) and node.args[1].is_Rational:
        inside, exponent = terms(node.args[0]), int(abs(node.args[1]))
        _bound(inside, MOST_TERMS)
        # As many as there are ways to share the exponent out among the terms.
        return math.comb(exponent + inside - 1, inside - 1) if min(exponent, inside) < MOST_NODES else MOST_TERMS + 1
    return 1


def _bound(value: float, most: float) -> None:
    if not value <= most:
        raise _TooLarge


def _digits(node: Any, sympy: Any) -> float:
    """An upper bound of the decimal digits of a number, 10 to which is above it and its reciprocal; variables are small."""
    if isinstance(node, sympy.Rational):
        return math.log10(max(abs(int(node.p)), abs(int(node.q)), 1))
    if isinstance(node, sympy.Float):
        return abs(float(sympy.log(abs(node), 10))) if node else 0.0
    if isinstance(node, sympy.Pow):
        size = _digits(node.args[1], sympy)
        _bound(size, math.log10(LARGEST_EXPONENT))
        return _digits(node.args[0], sympy) * float(10**size)
    if isinstance(node, sympy.exp):
        size = _digits(node.args[0], sympy)
        _bound(size, math.log10(LARGEST_EXPONENT))
        return float(10**size)
    if isinstance(node, sympy.factorial):
        size = _digits(node.args[0], sympy)
        _bound(size, math.log10(LARGEST_FACTORIAL))
        return max(size, 0.0) * float(10**size)
    if isinstance(node, sympy.Mul):
        return sum(_digits(part, sympy) for part in node.args)
    if node.args:
        return max(_digits(part, sympy) for part in node.args) + math.log10(len(node.args))
    return 1.0
