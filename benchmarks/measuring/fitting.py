"""How fast something grows: the exponent of a power law."""

from __future__ import annotations

import math
from collections.abc import Sequence


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Slope of the least squares line through (log size, log value): ``b`` in ``value = a * size ** b``."""
    if len(sizes) != len(values) or len(set(sizes)) < 2:
        raise ValueError(f"an exponent needs two sizes and a value for each, not {list(sizes)} and {list(values)}")
    x, y = [math.log(size) for size in sizes], [math.log(value) for value in values]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    covariance = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return covariance / sum((a - mean_x) ** 2 for a in x)
