from __future__ import annotations

import sympy
from grpo_lightning_math.difference import differ

x, y = sympy.symbols("x y", real=True)


def test_values_tell_expressions_apart() -> None:
    assert differ(sympy.Integer(5), sympy.Integer(6))
    assert differ((x + 1) ** 2, x**2 + 1)
    assert differ(x + y, x - y)
    assert differ(x + 1, y**2)
    assert differ(sympy.sqrt(-x), sympy.Integer(1))
    assert differ(sympy.Integer(1), sympy.log(0, evaluate=False))  # no value


def test_equal_or_nearly_equal_values_tell_nothing() -> None:
    assert not differ((x + 1) ** 2, x**2 + 2 * x + 1)
    assert not differ(sympy.Rational(1, 3), sympy.Float("0.333333"))
    assert not differ(sympy.oo, sympy.oo)
    assert not differ(sympy.Integer(0), sympy.Float("1e-9"))


def test_left_to_math_verify() -> None:
    percent = sympy.Mul(50, sympy.UnevaluatedExpr(sympy.Rational(1, 100)), evaluate=False)
    assert not differ(sympy.Integer(50), percent)
    assert not differ(sympy.Symbol("e"), sympy.E)
    assert not differ(sympy.FiniteSet(1), sympy.Integer(2))
