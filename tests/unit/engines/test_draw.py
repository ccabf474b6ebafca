"""One step by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from grpo_lightning.engines.draw import draw
from grpo_lightning.samplers.base import Sampler
from grpo_lightning.samplers.greedy import Greedy
from grpo_lightning.samplers.temperature import Temperature
from grpo_lightning.samplers.top_k import TopK

PROBABILITIES = [0.1, 0.4, 0.2, 0.3]


def logits(rows: int = 1) -> Tensor:
    return torch.tensor([PROBABILITIES] * rows, dtype=torch.float64).log() + 3.0


@pytest.mark.parametrize(
    ("uniform", "token"), [(0.0001, 0), (0.0999, 0), (0.1001, 1), (0.4999, 1), (0.5001, 2), (0.7001, 3), (0.99999, 3)]
)
def test_inversion_in_order_of_ids(uniform: float, token: int) -> None:
    drawn = draw(logits(), Temperature(), torch.tensor([uniform], dtype=torch.float64))
    assert drawn.token_Q.tolist() == [token]
    assert drawn.log_prob_Q.item() == pytest.approx(math.log(PROBABILITIES[token]), rel=1e-12)
    assert drawn.support is None


def test_temperature() -> None:
    # At a temperature of 1/2 probabilities are squared and normalised: 1, 16, 4 and 9 of 30.
    drawn = draw(logits(4), Temperature(temperature=0.5), torch.tensor([0.03, 0.5, 0.6, 0.71], dtype=torch.float64))
    assert drawn.token_Q.tolist() == [0, 1, 2, 3]
    assert drawn.log_prob_Q.exp().tolist() == pytest.approx([1 / 30, 16 / 30, 4 / 30, 9 / 30], rel=1e-12)


def test_support_is_normalised() -> None:
    # Of ids 1 and 3: 4/7 and 3/7.
    drawn = draw(logits(2), TopK(k=2), torch.tensor([0.57, 0.58], dtype=torch.float64))
    assert drawn.token_Q.tolist() == [1, 3]
    assert drawn.log_prob_Q.exp().tolist() == pytest.approx([4 / 7, 3 / 7], rel=1e-12)
    assert drawn.support is not None
    assert [each.tolist() for each in drawn.support] == [[1, 3], [1, 3]]
    assert drawn.support[0].dtype == torch.int32


def test_greedy_has_log_prob_0() -> None:
    drawn = draw(logits(3), Greedy(), torch.tensor([0.01, 0.5, 0.99], dtype=torch.float64))
    assert drawn.token_Q.tolist() == [1, 1, 1]
    assert drawn.log_prob_Q.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_narrow_logits_are_widened(dtype: torch.dtype) -> None:
    narrow = logits().to(dtype)
    drawn = draw(narrow, Temperature(), torch.tensor([0.5], dtype=torch.float64))
    exact = narrow.double()[0] - narrow.double()[0].exp().sum().log()
    assert drawn.log_prob_Q.item() == pytest.approx(exact[drawn.token_Q].item(), rel=1e-12)


def test_removed_ids_are_never_drawn() -> None:
    blocked = logits(2)
    blocked[:, [0, 3]] = -torch.inf
    drawn = draw(blocked, Temperature(), torch.tensor([1e-16, 1 - 1e-16], dtype=torch.float64))
    assert drawn.token_Q.tolist() == [1, 2]


class Everything(Sampler):
    """Does not say that it never restricts."""

    name = "test_everything"

    def support(self, log_probs_QV: Tensor) -> Tensor | None:
        return None


class Never(Sampler):
    """Says so, and is not asked."""

    name = "test_never"
    restricts = False

    def support(self, log_probs_QV: Tensor) -> Tensor | None:
        raise AssertionError("asked")


def adversarial(vocabulary: int) -> Tensor:
    """[5, V] float32: plain, blocked but for a few, shifted far up, one certain id, and flat."""
    generator = torch.Generator().manual_seed(vocabulary)
    plain = torch.randn(vocabulary, generator=generator) * 4
    blocked = torch.where(torch.rand(vocabulary, generator=generator) < 0.9, -torch.inf, plain)
    blocked[vocabulary // 2] = 1.0
    certain = torch.full((vocabulary,), -3000.0)
    certain[vocabulary - 2] = 5.0
    return torch.stack([plain, blocked, plain + 3e4, certain, torch.zeros(vocabulary)])


@pytest.mark.parametrize("vocabulary", [5, 256, 700, 70_001])
@pytest.mark.parametrize("temperature", [1.0, 0.3, 40.0])
def test_against_wider_sums(vocabulary: int, temperature: float) -> None:
    logits_QV = adversarial(vocabulary)
    for uniform in (2.0**-54, 0.3, 0.5, 0.9, 1 - 2.0**-53):
        uniform_Q = torch.full((5,), uniform, dtype=torch.float64)
        drawn = draw(logits_QV, Never(temperature=temperature), uniform_Q)
        asked = draw(logits_QV, Everything(temperature=temperature), uniform_Q)
        assert drawn.support is None
        assert asked.support is None
        for row, token in enumerate(drawn.token_Q.tolist()):
            scaled = (logits_QV[row].double() / temperature).numpy()
            weights = np.exp(scaled - scaled.max()).astype(np.longdouble)
            cumulative = np.cumsum(weights)
            assert weights[token] > 0
            log_prob = float(scaled[token] - scaled.max() - np.log(cumulative[-1]))
            assert float(drawn.log_prob_Q[row]) == pytest.approx(log_prob, abs=1e-10)
            # The interval of the token holds the uniform number, but for rounding.
            low, high = (cumulative[token] - weights[token]) / cumulative[-1], cumulative[token] / cumulative[-1]
            assert low - 1e-12 <= uniform <= high + 1e-12
            if min(abs(uniform - low), abs(high - uniform)) > 1e-12:
                assert int(asked.token_Q[row]) == token
                assert float(asked.log_prob_Q[row]) == pytest.approx(log_prob, abs=1e-10)


def test_rows_of_a_chunk_of_their_own_are_drawn_alike() -> None:
    logits_QV = adversarial(70_001).repeat(3, 1)
    uniform_Q = torch.linspace(0.01, 0.99, 15, dtype=torch.float64)
    whole = draw(logits_QV, Temperature(), uniform_Q)
    for row in range(15):
        one = draw(logits_QV[row : row + 1], Temperature(), uniform_Q[row : row + 1])
        assert (int(one.token_Q), float(one.log_prob_Q)) == (int(whole.token_Q[row]), float(whole.log_prob_Q[row]))


def test_greedy_takes_the_lowest_of_equals_and_asks_for_no_distribution() -> None:
    tied = torch.tensor([[0.0, 2.0, 2.0, -torch.inf], [3.0, -torch.inf, 3.0, 3.0]])
    drawn = draw(tied, Greedy(), torch.tensor([0.9, 0.9], dtype=torch.float64))
    assert (drawn.token_Q.tolist(), drawn.log_prob_Q.tolist()) == ([1, 0], [0.0, 0.0])
    assert drawn.support is not None
    assert [each.tolist() for each in drawn.support] == [[1], [0]]
    support = Greedy().support(torch.log_softmax(tied.double(), -1))
    assert [row.nonzero().squeeze(1).tolist() for row in support] == [[1], [0]]


@pytest.mark.parametrize("sampler", [Temperature(), TopK(k=2), Greedy()], ids=lambda sampler: str(sampler.name))
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_logits_that_are_not_finite_give_a_log_prob_that_is_not(sampler: Sampler, value: float) -> None:
    broken = logits(2)
    broken[1, 2] = value
    drawn = draw(broken, sampler, torch.tensor([0.5, 0.5], dtype=torch.float64))
    assert torch.isfinite(drawn.log_prob_Q).tolist() == [True, False]
