from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_lightning.errors import ConfigError
from grpo_lightning.samplers.top_p import TopP


def chosen(p: float, probabilities: list[float]) -> list[int]:
    support = TopP(p=p).support(torch.tensor([probabilities], dtype=torch.float64).log())
    assert support is not None
    return support[0].nonzero().squeeze(1).tolist()


def test_the_id_that_reaches_p_is_in() -> None:
    # In order of probability: ids 1, 3, 2, 0 with sums 1/2, 3/4, 7/8, 1.
    probabilities = [0.125, 0.5, 0.125, 0.25]
    assert chosen(0.5, probabilities) == [1]
    assert chosen(0.51, probabilities) == [1, 3]
    assert chosen(0.75, probabilities) == [1, 3]
    assert chosen(0.76, probabilities) == [0, 1, 3]
    assert chosen(0.9, probabilities) == [0, 1, 2, 3]


def test_there_is_always_one() -> None:
    assert chosen(1e-9, [0.2, 0.3, 0.5]) == [2]


def test_ties_go_to_the_lowest_ids() -> None:
    assert chosen(0.5, [0.25, 0.25, 0.25, 0.25]) == [0, 1]
    assert chosen(0.6, [0.25, 0.25, 0.25, 0.25]) == [0, 1, 2]


def test_one_is_everything() -> None:
    assert TopP(p=1.0).support(torch.zeros(2, 4, dtype=torch.float64)) is None


def test_a_mass_that_rounding_never_reaches_takes_all() -> None:
    log_probs = torch.full((1, 3000), -math.log(3000.1), dtype=torch.float64)
    support = TopP(p=math.nextafter(1.0, 0.0)).support(log_probs)
    assert support is not None
    assert support.all()


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    p=st.floats(0.01, 0.999),
    spread=st.sampled_from([0.0, 1.0, 5.0]),
    vocabulary=st.sampled_from([2, 30, 300, 5000]),
)
def test_equals_a_loop_over_ids_by_probability(seed: int, p: float, spread: float, vocabulary: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = (spread * torch.randn(3, vocabulary, generator=generator, dtype=torch.float64)).round(decimals=1)
    log_probs = logits.log_softmax(-1)
    support = TopP(p=p).support(log_probs)
    assert support is not None
    for row, probabilities in enumerate(log_probs.exp().tolist()):
        mass, expected = 0.0, set()
        for i in sorted(range(vocabulary), key=lambda i: (-logits[row, i].item(), i)):
            mass += probabilities[i]
            expected.add(i)
            if mass >= p:
                break
        assert set(support[row].nonzero().squeeze(1).tolist()) == expected


@pytest.mark.parametrize("p", [0.0, -0.1, 1.1, math.nan])
def test_masses_outside_zero_and_one_are_refused(p: float) -> None:
    with pytest.raises(ConfigError, match=r"^p: "):
        TopP(p=p)
