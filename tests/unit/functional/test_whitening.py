from __future__ import annotations

import math

import torch

from grpo_lightning.functional.whitening import whitened


def test_by_hand() -> None:
    # Values 0, 0, 0, 4: mean 1, squares 3 + 9, sample variance 4.
    found = whitened(torch.tensor([0.0, 4.0]).double(), torch.tensor([3, 1]), ddof=1, eps=0.0)
    assert found.tolist() == [-0.5, 1.5]
    found = whitened(torch.tensor([0.0, 4.0]).double(), torch.tensor([3, 1]), ddof=0, eps=1.0)
    torch.testing.assert_close(found, torch.tensor([-1.0, 3.0]).double() / (math.sqrt(3) + 1))


def test_is_the_same_as_writing_the_values_out() -> None:
    values, counts = torch.tensor([0.3, -1.0, 7.0]).double(), torch.tensor([5, 2, 1])
    written = values.repeat_interleave(counts)
    wanted = (values - written.mean()) / (written.std() + 1e-3)
    torch.testing.assert_close(whitened(values, counts, ddof=1, eps=1e-3), wanted)


def test_values_that_do_not_count_move_nothing() -> None:
    found = whitened(torch.tensor([1.0, 1e9, 3.0]).double(), torch.tensor([1, 0, 1]), ddof=0, eps=0.0)
    assert found[[0, 2]].tolist() == [-1.0, 1.0]


def test_nothing_to_measure_is_zero() -> None:
    values = torch.tensor([2.0, 2.0]).double()
    assert whitened(values, torch.tensor([1, 1]), ddof=1, eps=0.0).tolist() == [0.0, 0.0]
    assert whitened(values, torch.tensor([0, 0]), ddof=0, eps=0.0).tolist() == [0.0, 0.0]
    assert whitened(values, torch.tensor([1, 0]), ddof=1, eps=0.0).tolist() == [0.0, 0.0]
    assert whitened(values[:0], torch.tensor([], dtype=torch.int64), ddof=0, eps=0.0).shape == (0,)


def test_a_value_far_from_zero_keeps_the_digits_of_the_spread() -> None:
    values = 1e6 + torch.tensor([0.0, 2.0**-20, 2.0**-19]).double()
    found = whitened(values, torch.tensor([1, 1, 1]), ddof=0, eps=0.0)
    wanted = torch.tensor([-math.sqrt(1.5), 0.0, math.sqrt(1.5)], dtype=torch.float64)
    torch.testing.assert_close(found, wanted, atol=1e-14, rtol=0.0)
