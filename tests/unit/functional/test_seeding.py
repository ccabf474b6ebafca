from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from grpo_lightning.functional.seeding import address_hash, addressed_permutation, addressed_uniform

N = 20_000


def positions(n: int = N) -> Tensor:
    """Addresses of one row's steps: (rollout, group, attempt, member, turn, position)."""
    return torch.stack([torch.full((n,), value) for value in (3, 5, 0, 1, 0)] + [torch.arange(n)], dim=1)


def column(index: int, n: int = N) -> Tensor:
    """Addresses that differ in one column only."""
    addresses = torch.tensor([3, 5, 0, 1, 0, 7]).repeat(n, 1)
    addresses[:, index] = torch.arange(n)
    return addresses


@pytest.mark.parametrize("index", range(6))
def test_draws_along_every_part_of_an_address_are_uniform(index: int) -> None:
    draws = addressed_uniform(0, "sample", column(index)).numpy()
    counts = np.histogram(draws, bins=100, range=(0, 1))[0]
    assert stats.chisquare(counts).pvalue > 1e-4
    assert stats.kstest(draws, "uniform").pvalue > 1e-4


def test_low_bits_are_uniform_too() -> None:
    draws = addressed_uniform(0, "sample", positions()).numpy()
    fine = np.floor(draws * 2**40) % 64
    assert stats.chisquare(np.bincount(fine.astype(int), minlength=64)).pvalue > 1e-4


def test_successive_draws_fill_the_square() -> None:
    draws = addressed_uniform(0, "sample", positions()).numpy()
    counts = np.histogram2d(draws[:-1], draws[1:], bins=10, range=[[0, 1], [0, 1]])[0]
    assert stats.chisquare(counts.ravel()).pvalue > 1e-4


@pytest.mark.parametrize("shift", [1, 2, 3, 64])
def test_positions_are_not_correlated(shift: int) -> None:
    draws = addressed_uniform(0, "sample", positions()).numpy()
    assert abs(np.corrcoef(draws[:-shift], draws[shift:])[0, 1]) < 4 / N**0.5


def test_streams_seeds_and_neighbours_are_not_correlated() -> None:
    own = positions()
    other_member = own.clone()
    other_member[:, 3] += 1
    swapped = own[:, [5, 1, 2, 3, 4, 0]]
    draws = [
        addressed_uniform(0, "sample", own),
        addressed_uniform(1, "sample", own),
        addressed_uniform(0, "shuffle", own),
        addressed_uniform(0, "validation/held_out", own),
        addressed_uniform(0, "sample", other_member),
        addressed_uniform(0, "sample", swapped),
        addressed_uniform(-1, "sample", own),
    ]
    correlations = np.corrcoef(torch.stack(draws).numpy()) - np.eye(len(draws))
    assert np.abs(correlations).max() < 4.5 / N**0.5


def test_no_two_addresses_share_a_hash() -> None:
    grid = torch.cartesian_prod(*[torch.arange(n) for n in (4, 8, 2, 8, 3, 40)])
    hashes = address_hash(0, "sample", grid)
    assert len(np.unique(hashes)) == len(grid)
    assert len(np.unique(np.concatenate([hashes, address_hash(1, "sample", grid)]))) == 2 * len(grid)


def test_equal_addresses_draw_equally_whatever_is_drawn_with_them() -> None:
    addresses = positions(50)
    together = addressed_uniform(7, "sample", addresses)
    order = torch.randperm(50, generator=torch.Generator().manual_seed(0))
    assert torch.equal(addressed_uniform(7, "sample", addresses[order]), together[order])
    alone = torch.cat([addressed_uniform(7, "sample", addresses[i : i + 1]) for i in range(50)])
    assert torch.equal(alone, together)


def test_a_draw_does_not_touch_a_global_generator() -> None:
    before = torch.random.get_rng_state()
    addressed_uniform(0, "sample", positions(10))
    addressed_permutation(0, "shuffle", (1,), 10)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_draws_are_float64_strictly_between_zero_and_one() -> None:
    draws = addressed_uniform(0, "sample", positions())
    assert draws.dtype == torch.float64
    assert (draws > 0).all()
    assert (draws < 1).all()
    assert addressed_uniform(0, "sample", torch.zeros(0, 6, dtype=torch.int64)).shape == (0,)


def test_addresses_of_different_length_are_different() -> None:
    short, long = torch.tensor([[1, 2]]), torch.tensor([[1, 2, 0]])
    assert addressed_uniform(0, "sample", short).item() != addressed_uniform(0, "sample", long).item()


@pytest.mark.parametrize("n", [0, 1, 2, 257])
def test_a_permutation_has_every_index_once_and_is_told_by_its_address(n: int) -> None:
    own = addressed_permutation(0, "shuffle", (4, 2), n)
    assert own.dtype == torch.int64
    assert sorted(own.tolist()) == list(range(n))
    assert torch.equal(own, addressed_permutation(0, "shuffle", (4, 2), n))
    if n > 2:
        for other in (
            addressed_permutation(1, "shuffle", (4, 2), n),
            addressed_permutation(0, "other", (4, 2), n),
            addressed_permutation(0, "shuffle", (5, 2), n),
        ):
            assert not torch.equal(own, other)


def test_every_permutation_of_three_is_equally_likely() -> None:
    orders = [tuple(addressed_permutation(0, "shuffle", (epoch,), 3).tolist()) for epoch in range(3000)]
    counts = [orders.count(order) for order in sorted(set(orders))]
    assert len(counts) == 6
    assert stats.chisquare(counts).pvalue > 1e-4
