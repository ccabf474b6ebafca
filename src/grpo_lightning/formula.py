"""What a component computes, as an equation that a person can read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Formula:
    """An equation with the component's own numbers in it.

    The left-hand side says what it gives: ``A_i`` or ``A_it`` (an advantage of row i, of its step t), ``l_it``, ``l_i`` or
    ``l_g`` (a loss term of a step, row or group), ``c_it`` (a correction's weight), ``k_it`` (a KL estimate). An aggregation
    has none: its formula is what stands before the term, such as ``(1/T) sum_i sum_t``.
    """

    text: str
    """In plain text: ``A_i = (r_i - mean_g) / (std_g + 1e-06)``."""
    latex: str
    r"""In LaTeX, without dollar signs: ``A_i = \frac{r_i - \bar r_g}{\sigma_g + 10^{-6}}``."""
    symbols: Mapping[str, str] = field(default_factory=dict)
    """What the symbols of ``text`` mean, those that every equation shares (r, A, rho, pi, t, i) left out."""
    sources: tuple[str, ...] = ()
    """Authors and arXiv id, or what the equation is from."""


def number(value: float) -> str:
    """A number for an equation: as few digits as say it.

    Example:
        >>> number(0.28), number(3), number(1e-6)
        ('0.28', '3', '1e-06')
    """
    return f"{value:g}"


def latex_number(value: float) -> str:
    r"""A number for LaTeX.

    Example:
        >>> latex_number(0.28), latex_number(1e-6), latex_number(float("inf"))
        ('0.28', '10^{-6}', '\\infty')
    """
    if value == float("inf"):
        return r"\infty"
    text = f"{value:g}"
    if "e" not in text:
        return text
    mantissa, exponent = text.split("e")
    power = f"10^{{{int(exponent)}}}"
    return power if mantissa == "1" else rf"{mantissa} \cdot {power}"
