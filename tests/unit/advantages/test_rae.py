from __future__ import annotations

import io
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grpo_lightning.advantages.rae import RoleConditionedAdvantage
from grpo_lightning.errors import ConfigError
from grpo_lightning.types import RolloutTable
from helpers.adversarial import formula_cases, tables
from helpers.tables import reward_table


def labelled(table: RolloutTable, **columns: list[int]) -> RolloutTable:
    return replace(table, labels={name: torch.tensor(values) for name, values in columns.items()})


def reference(
    table: RolloutTable, columns: list[str], baselines: dict[tuple[int, ...], float], alpha: float, baseline: str
) -> list[float]:
    """Algorithm 1, row by row; ``baselines`` is updated."""
    result = []
    for row in range(len(table)):
        if not table.valid_R[row]:
            result.append(0.0)
            continue
        reward = float(table.rewards_R[row])
        role = tuple(int(table.labels[column][row]) for column in columns)
        before = baselines.get(role, 0.0)
        baselines[role] = alpha * before + (1 - alpha) * reward
        result.append(reward - (baselines[role] if baseline == "updated" else before))
    return result


@pytest.mark.parametrize("baseline", ["updated", "previous"])
@pytest.mark.parametrize("columns", [[], ["player"], ["game", "player"]])
@formula_cases
@given(
    rollouts=st.lists(tables(), min_size=1, max_size=3),
    alpha=st.sampled_from([0.95, 0.5, 0.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_equals_its_formula(
    rollouts: list[RolloutTable], alpha: float, seed: int, columns: list[str], baseline: Any
) -> None:
    generator = torch.Generator().manual_seed(seed)
    alpha = 0.1 if alpha == 0 and baseline == "updated" else alpha
    estimator = RoleConditionedAdvantage(columns=columns, alpha=alpha, baseline=baseline)
    baselines: dict[tuple[int, ...], float] = {}
    for drawn in rollouts:
        labels = {name: torch.randint(0, 2, (len(drawn),), generator=generator) for name in ("game", "player")}
        table = replace(drawn, labels=labels)
        found = [estimator(table) for _ in range(2)]  # calling it changes nothing
        expected = reference(table, columns, baselines, alpha, baseline)
        estimator.observe(table)
        # Differences of rewards and means of rewards: off by the rounding of the largest, now or earlier.
        size = max((abs(float(each)) for past in rollouts for each in past.rewards_R if each == each), default=0.0)
        assert torch.equal(found[0], found[1])
        torch.testing.assert_close(found[0], torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=1e-13 * size)


def test_updates_before_it_subtracts_by_hand() -> None:
    table = reward_table([[1.0, 1.0], [0.0]])
    # baseline 0.5, 0.75, 0.375
    assert RoleConditionedAdvantage(alpha=0.5)(table).tolist() == [0.5, 0.25, -0.375]
    # baseline 0, 0.5, 0.75
    assert RoleConditionedAdvantage(alpha=0.5, baseline="previous")(table).tolist() == [1.0, 0.5, -0.75]


def test_the_two_orders_differ_by_the_factor_alpha() -> None:
    table = reward_table([[1.0, -1.0, 0.5], [0.25, 0.0]])
    paper, code = RoleConditionedAdvantage(), RoleConditionedAdvantage(baseline="previous")
    for estimator in (paper, code):
        estimator.observe(table)
    torch.testing.assert_close(paper(table), 0.95 * code(table))
    assert paper.state_dict() == code.state_dict()


def test_roles_do_not_hear_of_each_other() -> None:
    table = labelled(reward_table([[1.0, -1.0, 1.0, -1.0]]), player=[7, 9, 7, 9], game=[1, 1, 1, 1])
    estimator = RoleConditionedAdvantage(columns=["game", "player"], alpha=0.5)
    assert estimator(table).tolist() == [0.5, -0.5, 0.25, -0.25]
    estimator.observe(table)
    assert estimator(table).tolist() == [0.125, -0.125, 0.0625, -0.0625]


def test_rows_are_taken_by_group_and_member_wherever_they_lie() -> None:
    table = labelled(reward_table([[1.0, 0.5], [0.0, 2.0]]), player=[0, 1, 0, 0])
    estimator = RoleConditionedAdvantage(columns=["player"])
    order = torch.tensor([3, 0, 2, 1])
    assert torch.equal(estimator(table)[order], estimator(table.select(order)))
    estimator.observe(table)
    shuffled = RoleConditionedAdvantage(columns=["player"])
    shuffled.observe(table.select(order))
    assert shuffled.state_dict() == estimator.state_dict()


def test_a_baseline_that_is_met_exactly_gives_exactly_0() -> None:
    estimator = RoleConditionedAdvantage()
    estimator.load_state_dict({"baselines": {"": 0.1}})
    assert estimator(reward_table([[0.1] * 4])).tolist() == [0.0] * 4


def test_equal_rewards_keep_their_distance() -> None:
    assert RoleConditionedAdvantage(alpha=0.5)(reward_table([[1.0], [1.0, 1.0]])).all()


def test_rows_that_abstain_leave_the_baseline_alone() -> None:
    estimator = RoleConditionedAdvantage(alpha=0.5)
    table = reward_table([[1.0, None, 1.0]], lengths=[1, 1, 0])
    assert estimator(table).tolist() == [0.5, 0.0, 0.0]
    estimator.observe(table)
    assert estimator.state_dict() == {"baselines": {"": 0.5}}


def test_its_state_survives_a_checkpoint() -> None:
    table = labelled(reward_table([[1.0, 0.0, 0.3]]), game=[2**62 + 1, 3, 3], player=[0, 1, 0])
    estimator = RoleConditionedAdvantage(columns=["game", "player"])
    estimator.observe(table)
    file = io.BytesIO()
    torch.save(estimator.state_dict(), file)
    file.seek(0)
    resumed = RoleConditionedAdvantage(columns=["game", "player"])
    resumed.load_state_dict(torch.load(file, weights_only=True))
    assert resumed.state_dict() == estimator.state_dict()
    assert torch.equal(resumed(table), estimator(table))
    assert not torch.equal(resumed(table), RoleConditionedAdvantage(columns=["game", "player"])(table))


def test_what_was_loaded_is_its_own() -> None:
    state = {"baselines": {"": 0.5}}
    estimator = RoleConditionedAdvantage()
    estimator.load_state_dict(state)
    estimator.observe(reward_table([[1.0]]))
    assert state == {"baselines": {"": 0.5}}


def test_says_what_it_lacks() -> None:
    with pytest.raises(ValueError, match="player"):
        RoleConditionedAdvantage(columns=["player"])(reward_table([[1.0]]))


def test_the_equation_has_the_numbers() -> None:
    assert RoleConditionedAdvantage().formula().text == "A_i = r_i - b_q, after b_q <- 0.95 b_q + 0.05 r_i"
    previous = RoleConditionedAdvantage(columns=["game"], baseline="previous").formula()
    assert previous.text == "A_i = r_i - b_q, before b_q <- 0.95 b_q + 0.05 r_i"
    assert previous.symbols["q"] == "role of the row: game"


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("alpha", 1.0),
        ("alpha", -0.1),
        ("alpha", math.nan),
        ("columns", "game"),
        ("columns", ["game", "game"]),
        ("baseline", "none"),
    ],
)
def test_wrong_values_are_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError) as error:
        RoleConditionedAdvantage(**{setting: value})
    assert error.value.setting == setting
