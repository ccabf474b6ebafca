from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grpo_lightning.advantages.gdpo import GDPO
from grpo_lightning.advantages.group_norm import GroupNorm
from grpo_lightning.errors import ConfigError
from grpo_lightning.types import RolloutTable
from helpers.adversarial import formula_cases, tables
from helpers.exact import (
    ROUND,
    ExactGroup,
    centering_error,
    deviation_error,
    exact_groups,
    expect_near,
    quotient_error,
    root,
    says_nothing,
)
from helpers.tables import reward_table

NAN = math.nan


def scored(
    groups: list[list[float | None]],
    components: dict[str, list[float]],
    weights: dict[str, float] | None = None,
    lengths: list[int] | None = None,
) -> RolloutTable:
    """A table of composed rewards with scores; a reward that abstains for a row has weight 0 there."""
    scores = {name: torch.tensor(values, dtype=torch.float64) for name, values in components.items()}
    given_ = weights or dict.fromkeys(components, 1.0)
    by_row = {name: torch.where(scores[name].isnan(), 0.0, weight).double() for name, weight in given_.items()}
    return replace(reward_table(groups, lengths=lengths), components=scores, weights=by_row)


def std_of(values: list[Fraction], ddof: int) -> float:
    mean = sum(values, Fraction(0)) / len(values)
    return root(sum(((value - mean) ** 2 for value in values), Fraction(0)) / (len(values) - ddof))


def test_two_rewards_by_hand() -> None:
    # a: [0, 2] -> [-1, 1]; b: [0, 8] -> [-1, 1] in population deviations. S = [-3, 3] and, in the second group where only
    # a differs, [-1, 1]. Over rows: mean 0, squares 20, variance 5.
    table = scored(
        [[0.0, 18.0], [0.0, 2.0]], {"a": [0.0, 2.0, 4.0, 6.0], "b": [0.0, 8.0, 5.0, 5.0]}, {"a": 1.0, "b": 2.0}
    )
    found = GDPO(ddof=0, eps=0.0)(table)
    wanted = torch.tensor([-3.0, 3.0, -1.0, 1.0], dtype=torch.float64) / math.sqrt(5)
    torch.testing.assert_close(found, wanted)


def test_over_steps_by_hand() -> None:
    # S = [-1, 1] with 1 and 3 steps: mean 1/2, variance 3/4.
    table = scored([[0.0, 2.0]], {"a": [0.0, 2.0]}, lengths=[1, 3])
    found = GDPO(over="steps", ddof=0, eps=0.0)(table)
    std = math.sqrt(0.75)
    torch.testing.assert_close(found, torch.tensor([-1.5 / std, 0.5 / std], dtype=torch.float64))


def test_one_reward_is_group_norm_whitened() -> None:
    table = scored([[0.0, 2.0, 5.0], [1.0, 1.5]], {"a": [0.0, 2.0, 5.0, 1.0, 1.5]})
    normed = GroupNorm()(table)
    torch.testing.assert_close(GDPO()(table), normed / (normed.std() + 1e-6))


def test_without_weights_the_composed_reward_is_the_only_one() -> None:
    plain = reward_table([[0.0, 2.0, 5.0], [1.0, 1.5]])
    with_scores = scored([[0.0, 2.0, 5.0], [1.0, 1.5]], {"a": [0.0, 2.0, 5.0, 1.0, 1.5]})
    assert GDPO()(plain).tolist() == GDPO()(with_scores).tolist()


def test_rewards_that_are_only_logged_have_no_part() -> None:
    table = scored([[0.0, 2.0, 5.0]], {"a": [0.0, 2.0, 5.0], "seen": [9.0, 0.0, 1.0]}, {"a": 1.0, "seen": 0.0})
    assert GDPO()(table).tolist() == GDPO()(scored([[0.0, 2.0, 5.0]], {"a": [0.0, 2.0, 5.0]})).tolist()


def test_a_reward_that_abstains_for_a_row_leaves_its_own_statistics_and_adds_zero() -> None:
    # a over rows 0 and 1: [-1, 1]; b over all three: values [0, 0, 3], mean 1, population deviation sqrt(2).
    table = scored([[0.0, 2.0, 3.0]], {"a": [0.0, 2.0, NAN], "b": [0.0, 0.0, 3.0]})
    root2 = math.sqrt(2)
    sums = torch.tensor([-1 - 1 / root2, 1 - 1 / root2, 2 / root2], dtype=torch.float64)
    wanted = (sums - sums.mean()) / sums.std(correction=0)
    torch.testing.assert_close(GDPO(ddof=0, eps=0.0)(table), wanted)


def test_equal_composed_rewards_do_not_silence_a_group_whose_scores_differ() -> None:
    # 1 + 0.1 * 0 and 0 + 0.1 * 10 make the same reward. a: [1, 1, -2] / sqrt(2), b: the opposite, and counts a tenth.
    table = scored([[1.0, 1.0, 1.0]], {"a": [1.0, 1.0, 0.0], "b": [0.0, 0.0, 10.0]}, {"a": 1.0, "b": 0.1})
    wanted = torch.tensor([1.0, 1.0, -2.0], dtype=torch.float64) / math.sqrt(2)
    torch.testing.assert_close(GDPO(ddof=0, eps=0.0)(table), wanted)


def test_scores_that_are_equal_up_to_rounding_are_exactly_zero() -> None:
    assert GDPO(eps=0.0)(scored([[0.3] * 3], {"a": [0.1 + 0.2, 0.3, 0.3]})).tolist() == [0.0] * 3
    # Scores that cancel: 1/3 and 2/3 are rounded differently, which must not be magnified.
    opposite = scored([[1.0] * 3], {"a": [1.0, 0.0, 0.0], "b": [0.0, 1.0, 1.0]})
    assert GDPO(eps=0.0)(opposite).tolist() == [0.0] * 3


def test_silent_groups_leave_the_last_moments() -> None:
    alone = GDPO()(scored([[0.0, 2.0, 5.0]], {"a": [0.0, 2.0, 5.0]}))
    among = GDPO()(scored([[0.1, 0.1], [0.0, 2.0, 5.0], [7.0]], {"a": [0.1, 0.1, 0.0, 2.0, 5.0, 7.0]}))
    assert among[[0, 1, 5]].tolist() == [0.0, 0.0, 0.0]
    torch.testing.assert_close(among[2:5], alone, rtol=1e-14, atol=0.0)


@st.composite
def scored_tables(draw: Any) -> RolloutTable:
    """A table with one to three rewards: of other scales, that abstain here and there, that mirror the first one."""
    table = draw(tables())
    dtype = {torch.finfo(each).eps: each for each in (torch.float64, torch.float32, torch.bfloat16)}[
        table.reward_epsilon
    ]
    components, weights = {}, {}
    for name in "abc"[: draw(st.integers(1, 3))]:
        if name == "b" and draw(st.integers(0, 2)) == 0:
            scores = (1.0 - components["a"]).to(dtype).double()
        else:
            scale, shift = draw(st.sampled_from([1e-6, 1.0, 1e6])), draw(st.sampled_from([0.0, 0.0, -1e3]))
            value = st.sampled_from([0.0, 1.0, 1.0, 0.3, -0.5, 1 / 3, None if draw(st.booleans()) else 0.1])
            drawn = draw(st.lists(value, min_size=len(table), max_size=len(table)))
            values = [NAN if each is None else each * scale + shift for each in drawn]
            scores = torch.tensor(values, dtype=torch.float64).to(dtype).double()
        components[name] = scores
        weights[name] = torch.where(scores.isnan(), 0.0, draw(st.sampled_from([1.0, 1.0, 0.5, -2.0, 0.0]))).double()
    return replace(table, components=components, weights=weights)


def sums_of(
    group: ExactGroup, table: RolloutTable, ddof: int, eps: float
) -> tuple[dict[int, Fraction], dict[int, float], float]:
    """S of a group's rows, what rounding may do to it, and the width within which they count as equal."""
    sums, errors, width = dict.fromkeys(group.rows, Fraction(0)), dict.fromkeys(group.rows, 0.0), 0.0
    epsilon = max(table.reward_epsilon, group.size * 2.0**-52)
    columns = [
        (table.components[name].tolist(), weights.tolist())
        for name, weights in table.weights.items()
        if (weights != 0).any()
    ]
    if not columns:
        columns = [(table.rewards_R.tolist(), [1.0] * len(table))]
    for scores, weights in columns:
        rows = [row for row in group.rows if not math.isnan(scores[row])]
        values = [Fraction(scores[row]) for row in rows]
        if says_nothing(values, table.reward_epsilon):
            continue
        mean, std, spread = sum(values, Fraction(0)) / len(values), std_of(values, ddof), max(values) - min(values)
        error = centering_error(len(values), spread)
        off = deviation_error(error, len(values), std)
        for row, value in zip(rows, values, strict=True):
            normed = (value - mean) / Fraction(std + eps)
            sums[row] += Fraction(weights[row]) * normed
            errors[row] += abs(weights[row]) * (
                quotient_error(error, float(normed), std + eps, off) + 4 * ROUND * abs(normed)
            )
        heaviest = max(abs(weights[row]) for row in rows)
        width += heaviest * 4 * epsilon * float(max(abs(value) for value in values)) / (std + eps)
    return sums, errors, width


@pytest.mark.parametrize("mode", [{}, {"ddof": 0, "eps": 0.0}, {"over": "steps", "eps": 0.5}], ids=str)
@formula_cases
@given(table=scored_tables())
def test_equals_its_formula(mode: dict[str, Any], table: RolloutTable) -> None:
    over, ddof, eps = mode.get("over", "rows"), mode.get("ddof", 1), mode.get("eps", 1e-6)
    wanted: list[Fraction | float] = [0.0] * len(table)
    bounds = [0.0] * len(table)
    speaking: dict[int, Fraction] = {}
    error, times = 0.0, {}
    for group in exact_groups(table):
        sums, errors, width = sums_of(group, table, ddof, eps)
        if group.size > 1 and max(sums.values()) - min(sums.values()) > width:
            speaking |= sums
            error = max(error, *errors.values())
            times |= {
                row: length if over == "steps" else 1 for row, length in zip(group.rows, group.lengths, strict=True)
            }
    if speaking:
        pool = [value for row, value in speaking.items() for _ in range(times[row])]
        mean, std = sum(pool, Fraction(0)) / len(pool), std_of(pool, ddof)
        reach = 2 * float(max(abs(each) for each in pool))
        error = 2 * error + (len(speaking) + 8) * ROUND * reach
        for row, value in speaking.items():
            wanted[row] = (value - mean) / Fraction(std + eps)
            off = deviation_error(error, len(speaking) + 4, std)
            bounds[row] = quotient_error(error, float(wanted[row]), std + eps, off)
    expect_near(GDPO(**mode)(table), wanted, bounds)


def test_formula_shows_its_numbers() -> None:
    formula = GDPO(over="steps", eps=0.25).formula()
    assert formula.text == "A_i = (S_i - mean_B) / (std_B + 0.25), S_i = sum_k w_k (r_ik - mean_gk) / (std_gk + 0.25)"
    assert "over the steps" in formula.symbols["mean_B, std_B"]


@pytest.mark.parametrize(("setting", "value"), [("over", "batch"), ("ddof", 2), ("eps", -1.0)])
def test_wrong_values_are_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        GDPO(**{setting: value})
    assert error.value.setting == setting
