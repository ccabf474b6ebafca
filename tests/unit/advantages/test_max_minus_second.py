from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
import torch
from hypothesis import given

from grpo_lightning.advantages.max_minus_second import MaxMinusSecond
from grpo_lightning.errors import ConfigError
from grpo_lightning.types import RolloutTable
from helpers.adversarial import formula_cases, tables
from helpers.exact import (
    ROUND,
    centering_error,
    deviation_error,
    exact_groups,
    expect_near,
    quotient_error,
    root,
    says_nothing,
    tie_width,
)
from helpers.tables import reward_table


def test_by_hand() -> None:
    advantages = MaxMinusSecond()(reward_table([[0.0, 1.0, 0.25], [4.0, 1.5], [-2.0, -8.0, -3.0, -8.0]]))
    assert advantages.tolist() == [0.0, 0.75, 0.0, 2.5, 0.0, 1.0, 0.0, 0.0, 0.0]


def test_by_hand_in_standard_deviations() -> None:
    # [0, 4]: mean 2, sample variance 8.
    table = reward_table([[0.0, 4.0]])
    assert MaxMinusSecond(scale="group", eps=0.0)(table).tolist() == pytest.approx([0.0, 4 / math.sqrt(8)])
    assert MaxMinusSecond(scale="group", ddof=0, eps=2.0)(table).tolist() == [0.0, 1.0]


def test_a_tie_of_the_best_is_zero() -> None:
    assert MaxMinusSecond()(reward_table([[1.0, 0.0, 1.0]])).tolist() == [0.0, 0.0, 0.0]
    assert MaxMinusSecond()(reward_table([[0.1 + 0.2, 0.3, 0.0]])).tolist() == [0.0, 0.0, 0.0]


def test_a_tie_is_judged_by_the_type_the_rewards_arrived_in() -> None:
    # The largest magnitude is 1, so the tolerance is 4 epsilons.
    epsilon = torch.finfo(torch.float32).eps
    near: list[float | None] = [1.0, 1.0 - 3 * epsilon, 0.0]
    assert MaxMinusSecond()(reward_table([near], dtype=torch.float32)).tolist() == [0.0, 0.0, 0.0]
    assert MaxMinusSecond()(reward_table([near])).tolist() == [3 * epsilon, 0.0, 0.0]


def test_a_value_that_ties_with_the_best_is_not_second_to_another() -> None:
    # 1 and its neighbour tie; the third lies outside the tolerance of the best, not of the neighbour: still a tie.
    epsilon = torch.finfo(torch.float32).eps
    chain: list[float | None] = [1.0, 1.0 - 3 * epsilon, 1.0 - 6 * epsilon]
    assert MaxMinusSecond()(reward_table([chain], dtype=torch.float32)).tolist() == [0.0, 0.0, 0.0]


def test_is_the_unbiased_gradient_of_the_expected_best() -> None:
    """Three outcomes, three samples: the sum over all 27 draws, against autograd through the exact expectation."""
    values = [0.0, 1.0, 3.0]
    logits = torch.tensor([0.2, -0.4, 0.7], dtype=torch.float64, requires_grad=True)
    draws = torch.cartesian_prod(*[torch.arange(3)] * 3)
    log_probs = logits.log_softmax(0)
    chances = log_probs[draws].sum(1).exp()
    best = torch.tensor(values, dtype=torch.float64)[draws].amax(1)
    wanted = torch.autograd.grad((chances * best).sum(), logits, retain_graph=True)[0]
    advantages = MaxMinusSecond()(reward_table([[values[each] for each in draw] for draw in draws.tolist()]))
    estimate = (chances.detach() * (advantages.view(-1, 3) * log_probs[draws]).sum(1)).sum()
    torch.testing.assert_close(torch.autograd.grad(estimate, logits)[0], wanted, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("mode", [{}, {"scale": "group"}, {"scale": "group", "ddof": 0, "eps": 0.0}], ids=str)
@formula_cases
@given(table=tables())
def test_equals_its_formula(mode: dict[str, Any], table: RolloutTable) -> None:
    ddof, eps = mode.get("ddof", 1), mode.get("eps", 1e-6)
    wanted: list[Fraction | float] = [0.0] * len(table)
    bounds = [0.0] * len(table)
    for group in exact_groups(table):
        if says_nothing(group.rewards, table.reward_epsilon):
            continue
        width = tie_width(group.rewards, table.reward_epsilon)
        squares = sum(((reward - group.mean) ** 2 for reward in group.rewards), Fraction(0))
        std = root(squares / (group.size - ddof))
        off = deviation_error(centering_error(group.size, group.spread), group.size, std)
        for place, row in enumerate(group.rows):
            without = max(reward for other, reward in enumerate(group.rewards) if other != place)
            lead = max(group.rewards) - without
            wanted[row] = lead if lead > width else 0.0
            bounds[row] = ROUND * float(wanted[row])
            if mode and wanted[row] != 0:
                wanted[row] = lead / Fraction(std + eps)
                bounds[row] = quotient_error(ROUND * float(lead), float(wanted[row]), std + eps, off)
    expect_near(MaxMinusSecond(**mode)(table), wanted, bounds)


def test_formula_shows_its_numbers() -> None:
    assert MaxMinusSecond().formula().text == "A_i = max_{j in g} r_j - max_{j in g, j != i} r_j"
    scaled = MaxMinusSecond(scale="group", eps=0.25).formula()
    assert scaled.text == "A_i = (max_{j in g} r_j - max_{j in g, j != i} r_j) / (std_g + 0.25)"
    assert "ddof 1" in scaled.symbols["std_g"]


@pytest.mark.parametrize(("setting", "value"), [("scale", "rollout"), ("ddof", 2), ("eps", -1.0)])
def test_wrong_values_are_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        MaxMinusSecond(**{setting: value})
    assert error.value.setting == setting
