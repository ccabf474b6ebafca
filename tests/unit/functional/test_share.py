from __future__ import annotations

import pytest

from grpo_lightning.functional.share import share


@pytest.mark.parametrize(
    ("fraction", "count", "expected"),
    [
        (0.29, 100, 29),  # 0.29 * 100 is 28.999999999999996 in binary
        (0.2, 9, 1),
        (0.2, 10, 2),
        (2e-4, 4999, 0),
        (2e-4, 5000, 1),
        (1e-05, 10**9, 10_000),
        (1.0, 7, 7),
        (1, 7, 7),
        (0.0, 7, 0),
        (0.5, 0, 0),
    ],
)
def test_floor_of_the_decimal_product(fraction: float, count: int, expected: int) -> None:
    assert share(fraction, count) == expected
