from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import comb
from typing import Any

import pytest
import torch
from hypothesis import given

from grpo_lightning.advantages.max_minus_second import MaxMinusSecond
from grpo_lightning.advantages.pkpo import PKPO
from grpo_lightning.errors import ConfigError
from grpo_lightning.types import RolloutTable
from helpers.adversarial import formula_cases, tables
from helpers.exact import ROUND, exact_groups, expect_near, says_nothing
from helpers.tables import reward_table

BASELINES = ["none", "leave_one_out", "leave_one_out_minus_one"]
LEAST = {"none": 0, "leave_one_out": 1, "leave_one_out_minus_one": 0}
"""Rows beyond k that each needs."""


def plain(rewards: list[Fraction], k: int) -> list[Fraction]:
    """s_i of eq. 19, by sorting: the row's own part where it is the best, and the better rows' where they are."""
    n = len(rewards)
    order = sorted(range(n), key=lambda row: rewards[row])
    result = [Fraction(0)] * n
    better = Fraction(0)
    for place in range(n, 0, -1):
        row = order[place - 1]
        own = comb(place - 1, k - 1) * rewards[row] if place >= k else Fraction(0)
        result[row] = (own + better) / comb(n, k)
        if place >= k and k >= 2:
            better += comb(place - 2, k - 2) * rewards[row]
    return result


def by_equations(rewards: list[Fraction], k: int, baseline: str) -> list[Fraction]:
    """Eqs. 19, 29 and 33."""
    n = len(rewards)
    result = plain(rewards, k)
    for row in range(n):
        others = rewards[:row] + rewards[row + 1 :]
        if baseline == "leave_one_out":
            result[row] -= sum(plain(others, k), Fraction(0)) / (n - 1)
        elif baseline == "leave_one_out_minus_one":
            result[row] -= Fraction(k, n * (k - 1)) * sum(plain(others, k - 1), Fraction(0))
    return result


def by_subsets(rewards: list[Fraction], k: int, baseline: str) -> list[Fraction]:
    """The same by going through all subsets."""
    n = len(rewards)

    def best(rows: tuple[int, ...]) -> Fraction:
        return max(rewards[row] for row in rows)

    result = []
    for row in range(n):
        mine = [rows for rows in combinations(range(n), k) if row in rows]
        value = sum((best(rows) for rows in mine), Fraction(0))
        if baseline == "leave_one_out_minus_one":
            value -= sum((best(tuple(set(rows) - {row})) for rows in mine), Fraction(0))
        value /= len(list(combinations(range(n), k)))
        if baseline == "leave_one_out":
            without = [rows for rows in combinations(range(n), k) if row not in rows]
            value -= Fraction(k, n - 1) * sum((best(rows) for rows in without), Fraction(0)) / len(without)
        result.append(value)
    return result


def expect(table: RolloutTable, k: int, baseline: Any, reference: Any) -> None:
    wanted: list[Fraction | float] = [0.0] * len(table)
    bounds = [0.0] * len(table)
    for group in exact_groups(table):
        n = group.size
        equal = baseline == "leave_one_out_minus_one" and says_nothing(group.rewards, table.reward_epsilon)
        if n < k + LEAST[baseline] or equal:
            continue
        values = reference(group.rewards, k, baseline)
        for row, reward, value in zip(group.rows, group.rewards, values, strict=True):
            wanted[row] = value
            # The weights of a row add up to at most k / n + k / (n - 1) in magnitude. Each meets a difference of rewards:
            # three roundings, and n additions; then the reward itself, times at most k / n: three more.
            weights = 2 * k / max(n - 1, 1)
            bounds[row] = ((n + 5) * weights * float(group.spread) + 4 * k / n * abs(float(reward))) * ROUND
            if baseline == "leave_one_out_minus_one":
                bounds[row] = (n + 5) * weights * float(group.spread) * ROUND
    expect_near(PKPO(k=k, baseline=baseline)(table), wanted, bounds)


def test_by_hand() -> None:
    # Rewards 0, 3, 1; pairs (0, 3), (0, 1), (3, 1). Row 1: (3 - 0 + 3 - 1) / 3, row 2: (1 - 0 + 0) / 3.
    table = reward_table([[0.0, 3.0, 1.0]])
    assert PKPO(k=2)(table).tolist() == pytest.approx([0.0, 5 / 3, 1 / 3], rel=1e-15)
    # s = (3 + 1, 3 + 3, 1 + 3) / 3.
    assert PKPO(k=2, baseline="none")(table).tolist() == pytest.approx([4 / 3, 2.0, 4 / 3], rel=1e-15)
    # Less k / (n - 1) = 1 times the best of the two others: 3, 1, 3.
    assert PKPO(k=2, baseline="leave_one_out")(table).tolist() == pytest.approx([-5 / 3, 1.0, -5 / 3], rel=1e-15)


@pytest.mark.parametrize("right", [0, 1, 3, 6])
@pytest.mark.parametrize("k", [1, 2, 4, 6])
def test_binary_rewards_are_the_papers_closed_form(right: int, k: int) -> None:
    # k / n for right rows; (k / n) rho(n - 1, c, k - 1) for wrong ones (eq. 8).
    n = 6
    wrong = k / n * (1 - comb(n - 1 - right, k - 1) / comb(n - 1, k - 1)) if right < n else 0.0
    found = PKPO(k=k, baseline="none")(reward_table([[1.0] * right + [0.0] * (n - right)]))
    assert found.tolist() == pytest.approx([k / n] * right + [wrong] * (n - right), rel=1e-14, abs=1e-16)


def test_with_k_of_the_group_it_is_the_leave_one_out_maximum() -> None:
    table = reward_table([[0.0, 3.0, 1.0, 0.5]])
    torch.testing.assert_close(PKPO(k=4)(table), MaxMinusSecond()(table), rtol=1e-15, atol=0.0)


def test_small_groups_are_zero() -> None:
    assert PKPO(k=3)(reward_table([[0.0, 1.0], [0.0, 1.0, None]])).tolist() == [0.0] * 5
    assert PKPO(k=3, baseline="none")(reward_table([[0.0, 1.0]])).tolist() == [0.0, 0.0]
    assert PKPO(k=2, baseline="leave_one_out")(reward_table([[0.0, 1.0]])).tolist() == [0.0, 0.0]


def test_what_each_needs_and_whether_it_compares() -> None:
    assert [PKPO(k=4, baseline=baseline).smallest_group for baseline in BASELINES] == [4, 5, 4]  # type: ignore[arg-type]
    assert [PKPO(k=4, baseline=baseline).compares for baseline in BASELINES] == [False, False, True]  # type: ignore[arg-type]


def test_equal_rewards() -> None:
    table = reward_table([[0.3] * 5])
    assert PKPO(k=2)(table).tolist() == [0.0] * 5
    assert PKPO(k=2, baseline="none")(table).tolist() == pytest.approx([0.3 * 2 / 5] * 5)
    assert PKPO(k=2, baseline="leave_one_out")(table).tolist() == pytest.approx([0.3 * (2 / 5 - 2 / 4)] * 5)


@pytest.mark.parametrize("baseline", BASELINES)
@pytest.mark.parametrize("k", [2, 3])
def test_is_an_unbiased_gradient_of_max_at_k(baseline: Any, k: int) -> None:
    """Three outcomes, four samples: the sum over all 81 draws, against autograd through the exact expectation."""
    values = torch.tensor([0.5, 1.0, 3.0], dtype=torch.float64)
    logits = torch.tensor([0.2, -0.4, 0.7], dtype=torch.float64, requires_grad=True)
    log_probs = logits.log_softmax(0)
    few = torch.cartesian_prod(*[torch.arange(3)] * k)
    expected = (log_probs[few].sum(1).exp() * values[few].amax(1)).sum()
    wanted = torch.autograd.grad(expected, logits, retain_graph=True)[0]
    draws = torch.cartesian_prod(*[torch.arange(3)] * 4)
    chances = log_probs[draws].sum(1).exp().detach()
    advantages = PKPO(k=k, baseline=baseline)(reward_table(values[draws].tolist())).view(-1, 4)
    estimate = (chances * (advantages * log_probs[draws]).sum(1)).sum()
    torch.testing.assert_close(torch.autograd.grad(estimate, logits)[0], wanted, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("baseline", BASELINES)
@pytest.mark.parametrize("k", [2, 3])
@formula_cases
@given(table=tables(largest=6, groups=3))
def test_equals_the_enumeration_of_subsets(baseline: str, k: int, table: RolloutTable) -> None:
    expect(table, k, baseline, by_subsets)


@pytest.mark.parametrize(
    ("baseline", "k"),
    [
        ("none", 1),
        ("none", 4),
        ("leave_one_out", 1),
        ("leave_one_out", 4),
        ("leave_one_out_minus_one", 2),
        ("leave_one_out_minus_one", 4),
        ("leave_one_out_minus_one", 16),
    ],
)
@formula_cases
@given(table=tables())
def test_equals_its_formula(baseline: str, k: int, table: RolloutTable) -> None:
    expect(table, k, baseline, by_equations)


def test_formula_follows_the_baseline() -> None:
    assert PKPO(k=3).formula().text == (
        "A_i = (1 / C(n, 3)) sum_{I: |I| = 3, i in I} (max_{j in I} r_j - max_{j in I, j != i} r_j)"
    )
    assert PKPO(k=3, baseline="none").formula().text == "A_i = (1 / C(n, 3)) sum_{I: |I| = 3, i in I} max_{j in I} r_j"
    assert PKPO(k=3, baseline="leave_one_out").formula().text.endswith("max_{j in I} r_j - 3 / (n - 1) rho_g\\i")


@pytest.mark.parametrize(
    ("setting", "arguments"), [("k", {"k": 0, "baseline": "none"}), ("k", {"k": 1}), ("baseline", {"baseline": "mean"})]
)
def test_wrong_values_are_refused_by_name(setting: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as error:
        PKPO(**arguments)
    assert error.value.setting == setting
