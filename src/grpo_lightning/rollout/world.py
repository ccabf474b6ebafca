"""What ranks share: their number, and gathering from all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import distributed as dist

from grpo_lightning.errors import (
    ConfigError,
    DataError,
    GRPOError,
    NonFiniteError,
    PluginError,
    PreemptedError,
    RewardError,
)


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


_OURS: dict[str, type[GRPOError]] = {
    each.__name__: each
    for each in (GRPOError, ConfigError, DataError, NonFiniteError, PluginError, PreemptedError, RewardError)
}


def raise_together(error: Exception | None) -> None:
    """Raise the same on every rank if any rank has an error, so that no rank waits for one that is gone.

    Raises:
        Exception: The error of the first rank that has one: there itself, elsewhere one of its class and text if it is an
            error of this package, else a :class:`GRPOError` with its class and text.
    """
    errors = gather(None if error is None else _described(error))
    first = next((index for index, each in enumerate(errors) if each is not None), None)
    if first is None:
        return
    if error is not None and first == rank():
        raise error
    name, arguments = errors[first]
    raise _OURS[name](*arguments) from error


def together(function: Callable[[], object]) -> None:
    """Call something on every rank, and raise on all what it raises on one.

    Raises:
        Exception: See :func:`raise_together`.
    """
    error: Exception | None = None
    try:
        function()
    except Exception as raised:
        error = raised
    raise_together(error)


def _described(error: Exception) -> tuple[str, tuple[Any, ...]]:
    """Class and arguments, for an exception may be of a class that another process cannot make."""
    name = type(error).__name__
    if isinstance(error, ConfigError):
        value = error.value if isinstance(error.value, str | int | float | None) else repr(error.value)
        return name if name in _OURS else "ConfigError", (error.setting, value, error.reason, error.fix)
    if isinstance(error, PreemptedError):
        return "PreemptedError", (error.signum,)
    if isinstance(error, GRPOError):
        return name if name in _OURS else "GRPOError", (str(error),)
    return "GRPOError", (f"{name}: {error}",)
