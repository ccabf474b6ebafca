from __future__ import annotations

import time

import pytest
import torch

from grpo_lightning.errors import ConfigError
from grpo_lightning.samplers.top_k import TopK


def chosen(sampler: TopK, probabilities: list[float]) -> list[int]:
    support = sampler.support(torch.tensor([probabilities], dtype=torch.float64).log())
    assert support is not None
    return support[0].nonzero().squeeze(1).tolist()


def test_by_hand() -> None:
    assert chosen(TopK(k=2), [0.1, 0.4, 0.2, 0.3]) == [1, 3]
    assert chosen(TopK(k=1), [0.1, 0.4, 0.2, 0.3]) == [1]


def test_ties_go_to_the_lowest_ids() -> None:
    assert chosen(TopK(k=2), [0.25, 0.25, 0.25, 0.25]) == [0, 1]
    assert chosen(TopK(k=3), [0.2, 0.2, 0.2, 0.4]) == [0, 1, 3]


@pytest.mark.parametrize("k", [1, 2, 5, 29])
def test_equals_a_sort_by_probability_and_id(k: int) -> None:
    draws = torch.randint(0, 6, (50, 30), generator=torch.Generator().manual_seed(k))
    log_probs = draws.to(torch.float64).log_softmax(-1)
    support = TopK(k=k).support(log_probs)
    assert support is not None
    for row, values in enumerate(draws.tolist()):
        expected = sorted(sorted(range(30), key=lambda i: (-values[i], i))[:k])
        assert support[row].nonzero().squeeze(1).tolist() == expected


def test_as_many_as_there_are_is_everything() -> None:
    assert TopK(k=4).support(torch.zeros(2, 4, dtype=torch.float64)) is None
    assert TopK(k=9).support(torch.zeros(2, 4, dtype=torch.float64)) is None


def test_a_large_vocabulary_is_not_sorted() -> None:
    log_probs = torch.randn(64, 50_000, dtype=torch.float64).log_softmax(-1)
    start = time.perf_counter()
    support = TopK(k=50).support(log_probs)
    assert time.perf_counter() - start < 2.0
    assert support is not None
    assert (support.sum(-1) == 50).all()


@pytest.mark.parametrize("k", [0, -1])
def test_k_below_one_is_refused(k: int) -> None:
    with pytest.raises(ConfigError, match=r"^k: "):
        TopK(k=k)
