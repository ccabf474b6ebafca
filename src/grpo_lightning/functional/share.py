"""How many of a number of things a fraction of them is."""

from __future__ import annotations

from fractions import Fraction


def share(fraction: float, count: int) -> int:
    """``floor(fraction * count)``, with the fraction taken as the decimal number that it prints as.

    Binary rounding does not reach the result: 0.29 of 100 is 29, though ``0.29 * 100`` is below 29.

    Args:
        fraction: Not negative.
        count: Not negative.

    Example:
        >>> from grpo_lightning.functional.share import share
        >>> share(0.29, 100), share(2e-4, 4_999), share(2e-4, 5_000)
        (29, 0, 1)
    """
    return int(Fraction(str(float(fraction))) * count)
