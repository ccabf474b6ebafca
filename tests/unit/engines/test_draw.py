"""One step by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from grpo_lightning.engines.draw import draw
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
