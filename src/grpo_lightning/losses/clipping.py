"""PPO's rule for when a ratio has gone far enough."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from grpo_lightning.formula import latex_number, number


@dataclass(frozen=True)
class Clipped:
    """A ratio under PPO's rule, and where the rule took its gradient; all of the ratio's shape."""

    ratio: Tensor
    """The ratio, or the bound that it has passed in the direction of its advantage."""
    low: Tensor
    """bool: ``A < 0`` and the ratio is below the lower bound."""
    high: Tensor
    """bool: ``A > 0`` and the ratio is above the upper bound."""


def clip_gain(ratio: Tensor, advantages: Tensor, low: float, high: float) -> Clipped:
    """The factor ``c`` for which ``min(rho A, clip(rho, low, high) A) = c A``.

    Where both branches of the minimum are equal, the gradient of ``rho`` goes on. A gradient made by ``min`` and ``clamp``
    would depend there on what the library does with ties.

    Args:
        ratio: ``rho``, positive.
        advantages: ``A``, of the same shape.
        low: Lower bound.
        high: Upper bound.

    Returns:
        The factor and the masks; normalised by nothing.
    """
    below, above = (advantages < 0) & (ratio < low), (advantages > 0) & (ratio > high)
    return Clipped(ratio.masked_fill(below, low).masked_fill(above, high), below, above)


def clip_text(ratio: str, advantage: str, low: float, high: float) -> str:
    """The minimum in plain text.

    Example:
        >>> clip_text("rho_it", "A_it", 0.8, 1.28)
        'min(rho_it A_it, clip(rho_it, 0.8, 1.28) A_it)'
    """
    return f"min({ratio} {advantage}, clip({ratio}, {number(low)}, {number(high)}) {advantage})"


def clip_latex(ratio: str, advantage: str, low: float, high: float) -> str:
    r"""The minimum in LaTeX.

    Example:
        >>> clip_latex(r"\rho", "A", 0.8, 1.28)
        '\\min\\left(\\rho A, \\operatorname{clip}(\\rho, 0.8, 1.28) A\\right)'
    """
    bounds = f"{latex_number(low)}, {latex_number(high)}"
    return rf"\min\left({ratio} {advantage}, \operatorname{{clip}}({ratio}, {bounds}) {advantage}\right)"
