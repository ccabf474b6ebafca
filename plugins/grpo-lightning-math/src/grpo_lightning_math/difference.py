"""Telling different expressions apart by their values, which spares trying to simplify their difference to 0."""

from __future__ import annotations

import cmath
from typing import Any

CLEARLY = 1e-3
"""Relative difference from which on two values are different, well above math-verify's six decimal places of 0.01."""
_FIRST, _STEP = 0.6180339887, 0.3819660113
"""Values of variables, which are nothing special."""


def differ(left: Any, right: Any) -> bool:
    """Whether two expressions have clearly different values at one place.

    Only numbers and expressions are told apart, and neither single variables nor percentages, of which math-verify has
    rules of its own. Values that are small tell nothing, and where both cannot be computed, or are not finite.

    Example:
        >>> import sympy
        >>> x = sympy.Symbol("x")
        >>> differ((x + 1) ** 2, x**2 + 1), differ((x + 1) ** 2, x**2 + 2 * x + 1)
        (True, False)
    """
    import sympy

    if not all(isinstance(each, sympy.Expr) and not each.is_Symbol for each in (left, right)):
        return False
    if any(each.has(sympy.UnevaluatedExpr) for each in (left, right)):
        return False
    names = sorted({str(symbol) for each in (left, right) for symbol in each.free_symbols})
    values = {name: _FIRST + _STEP * place for place, name in enumerate(names)}
    one, other = _value(left, values), _value(right, values)
    if one is None or other is None:
        return one is not other
    if max(abs(one), abs(other)) < 0.01:
        return False
    return abs(one - other) > CLEARLY * max(abs(one), abs(other))


def _value(expression: Any, values: dict[str, float]) -> complex | None:
    """Its value at a place, if that is finite."""
    try:
        value = expression.evalf(subs={symbol: values[str(symbol)] for symbol in expression.free_symbols}, maxn=30)
        number = complex(value)
    except Exception:  # SymPy raises whatever it likes
        return None
    return number if cmath.isfinite(number) else None
