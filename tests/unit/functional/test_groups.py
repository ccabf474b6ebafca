from __future__ import annotations

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_lightning.functional.groups import Groups

IDS = torch.tensor([30, 10, 30, 20, 10, 30])
VALUES = torch.tensor([1.0, 2.0, 3.0, 7.0, 6.0, 8.0], dtype=torch.float64)
GROUPS = Groups.of(IDS)
"""Groups 10: [2, 6], 20: [7], 30: [1, 3, 8]."""


def test_groups_are_numbered_in_order_of_their_ids() -> None:
    assert GROUPS.index_R.tolist() == [2, 0, 2, 1, 0, 2]
    assert GROUPS.sizes_G.tolist() == [2, 1, 3]
    assert len(GROUPS) == 3


def test_statistics_by_hand() -> None:
    assert GROUPS.sum(VALUES).tolist() == [8.0, 7.0, 12.0]
    assert GROUPS.mean(VALUES).tolist() == [4.0, 7.0, 4.0]
    assert GROUPS.max(VALUES).tolist() == [6.0, 7.0, 8.0]
    assert GROUPS.min(VALUES).tolist() == [2.0, 7.0, 1.0]
    assert GROUPS.centered(VALUES).tolist() == [-3.0, -2.0, -1.0, 0.0, 2.0, 4.0]


def test_standard_deviations_by_hand() -> None:
    # Squares: 4 + 4, 0, 9 + 1 + 16.
    torch.testing.assert_close(
        GROUPS.std(VALUES, 1), torch.tensor([math.sqrt(8), 0.0, math.sqrt(13)], dtype=torch.float64)
    )
    torch.testing.assert_close(GROUPS.std(VALUES, 0), torch.tensor([2.0, 0.0, math.sqrt(26 / 3)], dtype=torch.float64))


def test_a_group_too_small_for_its_degrees_of_freedom_has_no_deviation() -> None:
    assert Groups.of(torch.tensor([0])).std(VALUES[:1], 1).tolist() == [0.0]


def test_tolerance_and_unanimity_by_hand() -> None:
    epsilon = 0.01
    groups = Groups.of(torch.tensor([0, 0, 1, 1, 2, 2, 3]))
    values = torch.tensor([10.0, 9.6, 10.0, 9.5, -10.0, -9.61, 0.0], dtype=torch.float64)
    torch.testing.assert_close(
        groups.tolerance(values, epsilon), torch.tensor([0.4, 0.4, 0.4, 0.0], dtype=torch.float64)
    )
    assert groups.unanimous(values, epsilon + 1e-9).tolist() == [True, False, True, True]


def test_no_rows() -> None:
    empty = torch.zeros(0, dtype=torch.float64)
    groups = Groups.of(torch.zeros(0, dtype=torch.int64))
    assert len(groups) == 0
    for result in (groups.sum(empty), groups.mean(empty), groups.max(empty), groups.std(empty, 1)):
        assert result.shape == (0,)
    assert groups.centered(empty).shape == (0,)
    assert groups.unanimous(empty, 1e-7).shape == (0,)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(st.integers(-2, 3), st.floats(-100, 100)), min_size=1, max_size=20))
def test_equal_a_loop_over_groups(rows: list[tuple[int, float]]) -> None:
    groups = Groups.of(torch.tensor([row[0] for row in rows]))
    values = torch.tensor([row[1] for row in rows], dtype=torch.float64)
    for place, key in enumerate(sorted({row[0] for row in rows})):
        members = [value for each, value in rows if each == key]
        mean = math.fsum(members) / len(members)
        variance = math.fsum((value - mean) ** 2 for value in members) / len(members)
        assert math.isclose(groups.mean(values)[place].item(), mean, rel_tol=1e-12, abs_tol=1e-12)
        assert math.isclose(groups.std(values, 0)[place].item(), math.sqrt(variance), rel_tol=1e-9, abs_tol=1e-9)
        assert groups.max(values)[place].item() == max(members)
        assert groups.min(values)[place].item() == min(members)


def test_values_far_from_zero_are_centred_to_the_digits_of_their_spread() -> None:
    # Steps of 2^-33, the smallest at 1e6, whose mean needs more digits than a value has.
    step = 2.0**-33
    values = 1e6 + torch.tensor([0.0, step, 4 * step], dtype=torch.float64)
    groups = Groups.of(torch.zeros(3, dtype=torch.int64))
    wanted = torch.tensor([-5 / 3, -2 / 3, 7 / 3], dtype=torch.float64) * step
    torch.testing.assert_close(groups.centered(values), wanted, rtol=1e-14, atol=0.0)
    deviation = torch.tensor([math.sqrt(26 / 9) * step], dtype=torch.float64)
    torch.testing.assert_close(groups.std(values, 0), deviation, rtol=1e-14, atol=0.0)
