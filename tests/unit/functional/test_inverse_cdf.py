from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from grpo_lightning.functional.inverse_cdf import inverse_cdf, inverse_cdf_and_total
from grpo_lightning.functional.seeding import addressed_uniform

PROBABILITIES = [0.0, 0.25, 0.0, 0.5, 0.25, 0.0]


def draw(probabilities: list[float], uniform: float) -> int:
    return int(inverse_cdf(torch.tensor([probabilities], dtype=torch.float64), torch.tensor([uniform]).double()))


def test_by_hand() -> None:
    # Cumulative: 0, 1/4, 1/4, 3/4, 1, 1.
    assert draw(PROBABILITIES, 1e-300) == 1
    assert draw(PROBABILITIES, 0.24) == 1
    assert draw(PROBABILITIES, 0.25) == 3
    assert draw(PROBABILITIES, 0.7) == 3
    assert draw(PROBABILITIES, 0.75) == 4
    assert draw(PROBABILITIES, 0.999) == 4


def test_probabilities_need_not_add_up_to_one() -> None:
    for uniform in (0.1, 0.25, 0.6, 0.8):
        assert draw([8 * p for p in PROBABILITIES], uniform) == draw(PROBABILITIES, uniform)


def test_the_largest_uniform_number_draws_the_last_possible_id() -> None:
    largest = math.nextafter(1.0, 0.0)
    assert inverse_cdf(
        torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.1, 0.2, 0.7]], dtype=torch.float64),
        torch.full((3,), largest, dtype=torch.float64),
    ).tolist() == [1, 0, 2]
    # A sum of denormal numbers: the threshold is rounded to the total.
    assert draw([5e-324, 0.0], largest) == 0


@settings(max_examples=60, deadline=None)
@given(
    weights=st.lists(st.sampled_from([0.0, 0.0, 1e-12, 0.3, 1.0, 7.0]), min_size=1, max_size=12).filter(any),
    uniform=st.floats(2.0**-54, 1 - 2.0**-53),
)
def test_equals_a_loop_over_ids(weights: list[float], uniform: float) -> None:
    total = 0.0
    for weight in weights:
        total += weight
    cumulative, expected = 0.0, None
    for i, weight in enumerate(weights):
        cumulative += weight
        if cumulative > uniform * total:
            expected = i
            break
    drawn = draw(weights, uniform)
    assert weights[drawn] > 0
    if expected is not None:
        assert drawn == expected


def test_frequencies_are_the_probabilities() -> None:
    n = 20_000
    uniform = addressed_uniform(0, "sample", torch.arange(n)[:, None])
    probabilities = torch.tensor([0.05, 0.0, 0.6, 0.15, 0.2], dtype=torch.float64)
    counts = np.bincount(inverse_cdf(probabilities.expand(n, 5), uniform).numpy(), minlength=5)
    assert counts[1] == 0
    possible = [0, 2, 3, 4]
    assert stats.chisquare(counts[possible], n * probabilities[possible].numpy()).pvalue > 1e-4


def test_rows_are_drawn_apart() -> None:
    probabilities = torch.tensor([[0.5, 0.5], [0.1, 0.9], [0.9, 0.1]], dtype=torch.float64)
    assert inverse_cdf(probabilities, torch.tensor([0.4, 0.4, 0.4]).double()).tolist() == [0, 1, 0]
    assert inverse_cdf(probabilities[:0], torch.zeros(0)).tolist() == []


def by_loop(probabilities: torch.Tensor, uniform: float) -> tuple[int, float]:
    """The id, and how far the threshold is from the nearest end of an interval, relative to the total, by wider sums."""
    cumulative = np.cumsum(probabilities.numpy().astype(np.longdouble))
    threshold = np.longdouble(uniform) * cumulative[-1]
    found = int(np.flatnonzero(cumulative > threshold)[0])
    return found, float(np.abs(cumulative - threshold).min() / cumulative[-1])


@pytest.mark.parametrize("vocabulary", [255, 256, 257, 511, 512, 513, 1000, 2817])
def test_vocabularies_of_several_blocks_against_wider_sums(vocabulary: int) -> None:
    generator = torch.Generator().manual_seed(vocabulary)
    wide = torch.rand(6, vocabulary, generator=generator, dtype=torch.float64) * 20
    probabilities = torch.softmax(wide, -1)
    probabilities[1, torch.rand(vocabulary, generator=generator) < 0.97] = 0.0
    probabilities[2, : min(256, vocabulary - 1)] = 0.0
    probabilities[3, 200:] = 0.0
    probabilities[4, :-1] = 0.0
    probabilities[5] *= 1e-200
    uniforms = [2.0**-54, 1e-9, 0.1, 0.25, 0.5, 0.77, 0.999999, 1 - 2.0**-53]
    checked = 0
    for uniform in uniforms:
        ids, totals = inverse_cdf_and_total(probabilities, torch.full((6,), uniform, dtype=torch.float64))
        assert totals.tolist() == pytest.approx([math.fsum(row.tolist()) for row in probabilities], rel=1e-13)
        assert torch.equal(ids, inverse_cdf(probabilities, torch.full((6,), uniform, dtype=torch.float64)))
        for row, drawn in enumerate(ids.tolist()):
            expected, distance = by_loop(probabilities[row], uniform)
            assert probabilities[row, drawn] > 0
            if distance > 1e-14:
                assert drawn == expected
                checked += 1
    assert checked > 30


def test_the_last_block_of_several_may_be_impossible() -> None:
    probabilities = torch.zeros(1, 700, dtype=torch.float64)
    probabilities[0, [3, 300]] = torch.tensor([0.1, 0.2], dtype=torch.float64)
    largest = torch.tensor([math.nextafter(1.0, 0.0)], dtype=torch.float64)
    assert inverse_cdf(probabilities, largest).tolist() == [300]
    assert inverse_cdf(probabilities, torch.tensor([0.34], dtype=torch.float64)).tolist() == [300]
    assert inverse_cdf(probabilities, torch.tensor([0.33], dtype=torch.float64)).tolist() == [3]
    tiny = torch.zeros(1, 700, dtype=torch.float64)
    tiny[0, 5] = 5e-324
    assert inverse_cdf(tiny, largest).tolist() == [5]
