"""What ranks share: their number, and gathering from all of them."""

from __future__ import annotations

from typing import Any

from torch import distributed as dist

from grpo_lightning.errors import GRPOError


def active() -> bool:
    """Whether several processes train together."""
    return dist.is_available() and dist.is_initialized()


def world_size() -> int:
    """Number of data-parallel ranks."""
    return dist.get_world_size() if active() else 1


def rank() -> int:
    """Index of this rank."""
    return dist.get_rank() if active() else 0


def block(n: int, index: int | None = None) -> range:
    """Which of ``n`` things belong to a rank: contiguous blocks whose sizes differ by at most 1."""
    index, size = rank() if index is None else index, world_size()
    return range(n * index // size, n * (index + 1) // size)


def gather(value: Any) -> list[Any]:
    """``value`` of every rank, in order of rank."""
    if not active():
        return [value]
    values: list[Any] = [None] * world_size()
    dist.all_gather_object(values, value)
    return values


def raise_together(error: Exception | None) -> None:
    """Raise on every rank if any rank has an error, so that no rank waits for one that is gone.

    Raises:
        Exception: This rank's own error.
        GRPOError: On a rank without one, with the text of the first.
    """
    errors = gather(None if error is None else f"{type(error).__name__}: {error}")
    if error is not None:
        raise error
    first = next((text for text in errors if text is not None), None)
    if first is not None:
        raise GRPOError(f"another rank stopped: {first}")
