from __future__ import annotations

import pytest

from grpo_lightning.functional.passes import Passes
from grpo_lightning.functional.seeding import addressed_permutation


@pytest.mark.parametrize("positions", [range(12), [11, 0, 5, 4, 11], [7, 7]])
def test_a_row_is_a_function_of_its_position(positions: list[int]) -> None:
    passes = Passes(3, "orders", 5)
    orders = [addressed_permutation(3, "orders", (number,), 5).tolist() for number in range(3)]
    assert [passes.row(position) for position in positions] == [orders[each // 5][each % 5] for each in positions]


def test_a_pass_has_every_row_once_and_orders_differ() -> None:
    passes = Passes(0, "orders", 50)
    first, second = ([passes.row(number * 50 + place) for place in range(50)] for number in range(2))
    assert sorted(first) == sorted(second) == list(range(50))
    assert first != second
