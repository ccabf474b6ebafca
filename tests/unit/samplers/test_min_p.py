from __future__ import annotations

import math

import pytest
import torch

from grpo_lightning.errors import ConfigError
from grpo_lightning.samplers.min_p import MinP


def chosen(min_p: float, probabilities: list[float]) -> list[int]:
    support = MinP(min_p=min_p).support(torch.tensor([probabilities], dtype=torch.float64).log())
    assert support is not None
    return support[0].nonzero().squeeze(1).tolist()


def test_by_hand() -> None:
    # The largest is 1/2, so the bound is 1/10 for 0.2 and 1/4 for 0.5.
    probabilities = [0.5, 0.05, 0.3, 0.15]
    assert chosen(0.2, probabilities) == [0, 2, 3]
    assert chosen(0.5, probabilities) == [0, 2]
    assert chosen(1.0, probabilities) == [0]


def test_an_id_on_the_bound_is_in() -> None:
    assert chosen(0.5, [0.5, 0.25, 0.25]) == [0, 1, 2]


def test_equals_of_the_most_probable_id_are_in() -> None:
    assert chosen(1.0, [0.4, 0.2, 0.4]) == [0, 2]


def test_zero_is_everything() -> None:
    assert MinP(min_p=0.0).support(torch.zeros(2, 4, dtype=torch.float64)) is None


@pytest.mark.parametrize("min_p", [-0.1, 1.1, math.nan])
def test_shares_outside_zero_and_one_are_refused(min_p: float) -> None:
    with pytest.raises(ConfigError, match=r"^min_p: "):
        MinP(min_p=min_p)
