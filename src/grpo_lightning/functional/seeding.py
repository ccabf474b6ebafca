"""Addressed randomness: a draw is a function of its address, not of the order in which draws happen."""

from __future__ import annotations

import zlib

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    # The finaliser of splitmix64 (Steele, Lea and Flood, OOPSLA 2014): a bijection of 64 bits that passes BigCrush.
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def address_hash(seed: int, stream: str, address_QA: Tensor) -> NDArray[np.uint64]:
    """[Q] uint64: a hash of (seed, stream, address), well mixed in every bit.

    Args:
        seed: Seed of the run.
        stream: Name of what is drawn (``sample``, ``validation/held_out``, ...): streams are independent of each other.
        address_QA: [Q, A] int64: one address a draw.
    """
    with np.errstate(over="ignore"):
        state = np.full(address_QA.shape[0], np.uint64(seed & 0xFFFFFFFFFFFFFFFF), dtype=np.uint64)
        state = _mix(state + _GOLDEN * np.uint64(zlib.crc32(stream.encode()) + 1))
        for column in address_QA.numpy().astype(np.uint64).T:
            state = _mix(state + _GOLDEN) ^ _mix(column * _GOLDEN + np.uint64(1))
            state = _mix(state)
    return state


def addressed_uniform(seed: int, stream: str, address_QA: Tensor) -> Tensor:
    """[Q] float64 in (0, 1): one uniform number an address, of 53 random bits.

    Example:
        >>> import torch
        >>> from grpo_lightning.functional.seeding import addressed_uniform
        >>> address = torch.tensor([[3, 0, 1], [3, 1, 1]])
        >>> both, second = addressed_uniform(0, "x", address), addressed_uniform(0, "x", address[1:])
        >>> bool(both[1] == second[0])
        True
    """
    with np.errstate(over="ignore"):
        bits = address_hash(seed, stream, address_QA) >> np.uint64(11)
    return torch.from_numpy((bits.astype(np.float64) + 0.5) * 2.0**-53)


def addressed_permutation(seed: int, stream: str, address: tuple[int, ...], n: int) -> Tensor:
    """[n] int64: a permutation of 0 ... n - 1 that is a function of its address."""
    prefix = torch.tensor(address, dtype=torch.int64).expand(n, len(address))
    keys = address_hash(seed, stream, torch.cat([prefix, torch.arange(n)[:, None]], dim=1))
    return torch.from_numpy(np.argsort(keys, kind="stable"))
