from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import pytest
import torch
from hypothesis import given

from grpo_lightning.advantages.rank_based import RankBased
from grpo_lightning.errors import ConfigError
from grpo_lightning.types import RolloutTable
from helpers.adversarial import formula_cases, tables
from helpers.exact import ROUND, exact_groups, expect_near, says_nothing, tie_width
from helpers.tables import reward_table


def mid_ranks(rewards: list[Fraction], width: Fraction) -> list[Fraction]:
    """q_i by counting pairs."""
    result = []
    for i, own in enumerate(rewards):
        others = [other for j, other in enumerate(rewards) if j != i]
        ties = sum(abs(own - other) <= width for other in others)
        below = sum(other < own and abs(own - other) > width for other in others)
        result.append((below + Fraction(ties, 2)) / len(others))
    return result


def test_mid_ranks_by_hand() -> None:
    # 5 beats all three; 1 beats one and ties with one, q = (1 + 1/2) / 3 = 1/2; 0 beats none.
    advantages = RankBased()(reward_table([[1.0, 5.0, 1.0, 0.0], [0.0, 7.0]]))
    torch.testing.assert_close(advantages, torch.tensor([0.0, 1.0, 0.0, -1.0, -1.0, 1.0], dtype=torch.float64))


def test_normal_scores_by_hand() -> None:
    # Ranks 0, 1/2, 1 of three: Phi^-1 of 1/6, 1/2 and 5/6. Their mean is 0.
    edge = NormalDist().inv_cdf(5 / 6)
    advantages = RankBased(score="normal")(reward_table([[3.0, 9.0, 1.0]]))
    torch.testing.assert_close(advantages, torch.tensor([0.0, edge, -edge], dtype=torch.float64))


def test_normal_scores_with_ties_are_centred_again() -> None:
    # q = 0, 3/4, 3/4 of three: (2 q + 1/2) / 3 = 1/6, 2/3, 2/3.
    scores = [NormalDist().inv_cdf(1 / 6), NormalDist().inv_cdf(2 / 3), NormalDist().inv_cdf(2 / 3)]
    expected = torch.tensor(scores, dtype=torch.float64) - sum(scores) / 3
    torch.testing.assert_close(RankBased(score="normal")(reward_table([[0.0, 1.0, 1.0]])), expected)


def test_rewards_within_the_tolerance_tie() -> None:
    # The largest magnitude is 1, so the tolerance is 4 float32 epsilons: 2 epsilons tie, 6 do not.
    epsilon = torch.finfo(torch.float32).eps
    near = reward_table([[1.0, 1.0 - 2 * epsilon, 0.0]], dtype=torch.float32)
    assert RankBased()(near).tolist() == [0.5, 0.5, -1.0]
    far = reward_table([[1.0, 1.0 - 6 * epsilon, 0.0]], dtype=torch.float32)
    assert RankBased()(far).tolist() == [1.0, 0.0, -1.0]


def test_ties_are_judged_pair_by_pair() -> None:
    # Neighbours tie, the ends do not: signs 0 - 1, 0 + 0, 0 + 1 over two others.
    epsilon = torch.finfo(torch.float32).eps
    chain = reward_table([[1.0 - 6 * epsilon, 1.0 - 3 * epsilon, 1.0]], dtype=torch.float32)
    assert RankBased()(chain).tolist() == [-0.5, 0.0, 0.5]


def test_only_the_order_counts() -> None:
    rewards = [0.3, 0.1, 0.9, 0.1, 0.5]
    for score in ("mid_rank", "normal"):
        plain = RankBased(score=score)(reward_table([rewards]))
        cubed = RankBased(score=score)(reward_table([[1e6 * reward**3 - 5 for reward in rewards]]))
        assert plain.tolist() == cubed.tolist()


@pytest.mark.parametrize("score", ["mid_rank", "normal"])
@formula_cases
@given(table=tables())
def test_equals_its_formula(score: Any, table: RolloutTable) -> None:
    wanted: list[Fraction | float] = [0.0] * len(table)
    bounds = [0.0] * len(table)
    for group in exact_groups(table):
        if says_nothing(group.rewards, table.reward_epsilon):
            continue
        ranks = mid_ranks(group.rewards, tie_width(group.rewards, table.reward_epsilon))
        scores = [NormalDist().inv_cdf(((group.size - 1) * rank + Fraction(1, 2)) / group.size) for rank in ranks]
        for row, rank, normal in zip(group.rows, ranks, scores, strict=True):
            wanted[row] = 2 * rank - 1 if score == "mid_rank" else normal - math.fsum(scores) / len(scores)
            # One division. The two inverse distribution functions, each good to some 1e-15, meet arguments that are a
            # rounding apart, which the slope, below 100 for groups of 32, makes 1e-14.
            bounds[row] = ROUND if score == "mid_rank" else 1e-13
    expect_near(RankBased(score=score)(table), wanted, bounds)


def test_formula_follows_the_score() -> None:
    assert RankBased().formula().text.startswith("A_i = 2 q_i - 1, q_i = ")
    assert "Phi^-1(((G - 1) q_i + 1/2) / G)" in RankBased(score="normal").formula().text


def test_mid_ranks_lie_between_minus_one_and_one() -> None:
    advantages = RankBased()(reward_table([[-1e6, 0.0, 1e-6, 1e6], [0.0, 1e6, 0.0]]))
    assert advantages.abs().max().item() == 1.0


def test_unknown_score_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="score: 'rank' is no score"):
        RankBased(score="rank")  # type: ignore[arg-type]
