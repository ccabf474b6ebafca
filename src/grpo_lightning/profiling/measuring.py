"""What parts call to say what they do; nothing happens where nobody measures."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from types import TracebackType
from typing import ParamSpec, TypeVar

from grpo_lightning.profiling.profiler import Profiler

P = ParamSpec("P")
T = TypeVar("T")

_profiler: Profiler | None = None
_NOTHING = nullcontext()


def start(profiler: Profiler) -> None:
    """Measure with ``profiler`` from here on, in this thread; one at a time."""
    global _profiler
    _profiler = profiler
    profiler.start()


def stop() -> None:
    """Measure no more."""
    global _profiler
    profiler, _profiler = _profiler, None
    if profiler is not None:
        profiler.stop()


def _here() -> Profiler | None:
    profiler = _profiler
    return profiler if profiler is not None and profiler.thread == threading.get_ident() else None


def active() -> bool:
    """Whether somebody measures this thread, so that counts are worth making."""
    return _here() is not None


class _Phase:
    __slots__ = ("_name", "_profiler")

    def __init__(self, profiler: Profiler, name: str) -> None:
        self._profiler, self._name = profiler, name

    def __enter__(self) -> None:
        self._profiler.begin(self._name)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._profiler.end(self._name)


def phase(name: str) -> AbstractContextManager[None]:
    """A block that belongs to a phase."""
    profiler = _here()
    return _NOTHING if profiler is None or profiler.closed else _Phase(profiler, name)


def during(name: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A function, every call of which belongs to a phase."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def called(*arguments: P.args, **named: P.kwargs) -> T:
            with phase(name):
                return function(*arguments, **named)

        return called

    return decorate


def begin(name: str) -> None:
    """Open a phase that another function closes."""
    profiler = _here()
    if profiler is not None:
        profiler.begin(name)


def end(name: str) -> None:
    """Close it; nothing happens if it is not open."""
    profiler = _here()
    if profiler is not None:
        profiler.end(name)


def count(
    *,
    positions: int = 0,
    tokens: int = 0,
    duplicated: int = 0,
    silent: int = 0,
    operations: int = 0,
    backward: int = 0,
    recomputed: int = 0,
) -> None:
    """Add to the innermost open phase; the fields are those of :class:`PhaseRecord`.

    Args:
        positions: What ran through the model, padding included.
        tokens: Positions that hold a token.
        duplicated: Of them, tokens of prompts that ran before in the same pass.
        silent: Tokens of rows of advantage 0.
        operations: Floating point operations.
        backward: Those of the backward pass of this, which is owed them if there is a gradient.
        recomputed: Those that the backward pass will do again.
    """
    profiler = _here()
    if profiler is not None:
        profiler.count(
            positions=positions,
            tokens=tokens,
            duplicated=duplicated,
            silent=silent,
            operations=operations,
            backward=backward,
            recomputed=recomputed,
        )


@contextmanager
def timed(seconds: dict[str, float], key: str, name: str | None = None) -> Iterator[None]:
    """Add the time of a block, the phases inside it included, to ``seconds[key]``.

    Args:
        seconds: Sums by key.
        key: Where to add.
        name: Phase that the block belongs to, if any.
    """
    began = time.perf_counter()
    try:
        with _NOTHING if name is None else phase(name):
            yield
    finally:
        seconds[key] = seconds.get(key, 0.0) + time.perf_counter() - began
