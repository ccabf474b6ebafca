from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_lightning.functional.returns import returns_to_go, running_sums


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.lists(st.floats(-1, 1), min_size=1, max_size=20), min_size=1, max_size=6),
    gamma=st.sampled_from([0.0, 0.5, 0.99, 1.0]),
)
def test_equal_their_recursions(rows: list[list[float]], gamma: float) -> None:
    returns, sums = [], []
    for row in rows:
        ahead, backwards = 0.0, []
        for reward in reversed(row):
            ahead = reward + gamma * ahead
            backwards.append(ahead)
        returns += backwards[::-1]
        sums += [sum(row[: place + 1]) for place in range(len(row))]
    values = torch.tensor([each for row in rows for each in row], dtype=torch.float64)
    row_S = torch.tensor([index for index, row in enumerate(rows) for _ in row])
    found = returns_to_go(values, row_S, gamma)
    torch.testing.assert_close(found, torch.tensor(returns, dtype=torch.float64), rtol=0, atol=1e-13)
    torch.testing.assert_close(running_sums(values, row_S), torch.tensor(sums, dtype=torch.float64), rtol=0, atol=1e-13)


def test_a_decay_of_its_own_for_every_step() -> None:
    # 1 + 0.5 (2 + 0.25 (4 + 2 * 8)) = 1 + 0.5 * 7 = 4.5; the decay at the end, 9, leads nowhere.
    values, decay = torch.tensor([1.0, 2.0, 4.0, 8.0, 3.0]), torch.tensor([0.5, 0.25, 2.0, 9.0, 9.0])
    assert returns_to_go(values, torch.tensor([0, 0, 0, 0, 1]), decay).tolist() == [4.5, 7.0, 20.0, 8.0, 3.0]


@pytest.mark.parametrize("gamma", [1.0, 0.97])
def test_rows_that_end_alike_have_bitwise_equal_returns_there(gamma: float) -> None:
    tail = torch.rand(37, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    values = torch.cat([tail, torch.full((5,), 1e6, dtype=torch.float64), tail])
    returns = returns_to_go(values, torch.tensor([0] * 37 + [3] * 42), gamma)
    assert torch.equal(returns[:37], returns[-37:])


def test_what_is_no_number_stays_in_its_row() -> None:
    values, row_S = torch.tensor([1.0, 1.0, torch.nan, torch.inf, 2.0]), torch.tensor([0, 0, 1, 1, 2])
    assert returns_to_go(values, row_S, 0.5)[[0, 1, 4]].tolist() == [1.5, 1.0, 2.0]
    assert running_sums(values, row_S)[[0, 1, 4]].tolist() == [1.0, 2.0, 2.0]


def test_no_steps_have_no_returns() -> None:
    nothing = torch.zeros(0, dtype=torch.float64)
    assert returns_to_go(nothing, torch.zeros(0, dtype=torch.int64)).shape == (0,)
    assert running_sums(nothing, torch.zeros(0, dtype=torch.int64)).shape == (0,)
