"""A request to stop, as schedulers make it by a signal: remembered at once, followed where a run can be left."""

from __future__ import annotations

from grpo_lightning.errors import PreemptedError

_requested: int | None = None


def request(signum: int) -> None:
    """Remember the signal ``signum``; safe in a signal handler."""
    global _requested
    _requested = signum


def requested() -> int | None:
    """The signal that asked this process to stop; ``None`` if there was none."""
    return _requested


def clear() -> None:
    """Forget a request."""
    global _requested
    _requested = None


def check() -> None:
    """Leave here if this process was asked to stop.

    Raises:
        PreemptedError: If it was.
    """
    if _requested is not None:
        raise PreemptedError(_requested)
