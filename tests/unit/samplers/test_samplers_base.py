"""What holds for every sampler that comes with the package."""

from __future__ import annotations

import math

import pytest
import torch

from grpo_lightning.errors import ConfigError
from grpo_lightning.samplers import Greedy, MinP, Sampler, Temperature, TopK, TopP
from helpers.generate_warpers import generate_distribution, own_distribution

EVERY = [
    Greedy(),
    MinP(min_p=0.1),
    MinP(min_p=0.02, temperature=1.5),
    Temperature(),
    Temperature(temperature=0.3),
    TopK(k=1),
    TopK(k=3, temperature=0.7),
    TopK(k=1000),
    TopP(p=0.5),
    TopP(p=0.9, temperature=2.0),
    TopP(p=1.0),
]
every = pytest.mark.parametrize("sampler", EVERY, ids=lambda each: f"{each.name}/{vars(each)}")


@every
@pytest.mark.parametrize("spread", [0.1, 3.0, 30.0])
def test_it_draws_from_what_generate_draws_from(sampler: Sampler, spread: float) -> None:
    logits = spread * torch.randn(8, 40, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(own_distribution(sampler, logits), generate_distribution(sampler, logits))


@every
def test_a_support_is_never_empty_and_holds_the_most_probable_id(sampler: Sampler) -> None:
    log_probs = torch.stack(
        [
            torch.zeros(20, dtype=torch.float64),
            torch.full((20,), -800.0, dtype=torch.float64).index_fill(0, torch.tensor([13]), 0.0),
            torch.full((20,), -torch.inf, dtype=torch.float64).index_fill(0, torch.tensor([4]), 0.0),
        ]
    ).log_softmax(-1)
    support = sampler.support(log_probs)
    if support is not None:
        assert support.shape == log_probs.shape
        assert support.dtype == torch.bool
        assert support.gather(1, torch.tensor([[0], [13], [4]])).all()


@every
def test_a_row_does_not_depend_on_the_others(sampler: Sampler) -> None:
    logits = 4 * torch.randn(6, 700, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    logits[3] *= 0.0
    log_probs = logits.log_softmax(-1)
    together = sampler.support(log_probs)
    for row in range(6):
        alone = sampler.support(log_probs[row : row + 1])
        if together is not None:
            assert alone is not None
            assert torch.equal(alone[0], together[row])


@every
def test_no_requests(sampler: Sampler) -> None:
    support = sampler.support(torch.zeros(0, 50, dtype=torch.float64))
    assert support is None or support.shape == (0, 50)


@pytest.mark.parametrize("make", [Temperature, TopK, TopP, MinP])
@pytest.mark.parametrize("temperature", [0.0, -1.0, math.inf, math.nan])
def test_temperatures_that_are_not_positive_numbers_are_refused(make: type[Sampler], temperature: float) -> None:
    with pytest.raises(ConfigError, match=r"^temperature: "):
        make(temperature=temperature)
