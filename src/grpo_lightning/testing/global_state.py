"""What a process shares, and whether a call left it as it was."""

from __future__ import annotations

import os
import random
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from grpo_lightning.testing.check import expect
from grpo_lightning.testing.difference import difference


@dataclass(frozen=True)
class _Part:
    """One thing that the whole process shares."""

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], object]
    mend: str


def _environment(values: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(values)


def _handlers() -> dict[int, Any]:
    return {int(number): signal.getsignal(number) for number in signal.valid_signals()}


def _set_handlers(handlers: dict[int, Any]) -> None:
    if threading.current_thread() is not threading.main_thread():
        return  # Python lets only the main thread set them
    for number, handler in handlers.items():
        if handler is not None and signal.getsignal(number) is not handler:
            signal.signal(number, handler)


def _deterministic() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


_OWN = "make a generator of your own from a seed, such as torch.Generator().manual_seed(seed) or random.Random(seed)"
_PARTS = (
    _Part("torch's random state", torch.get_rng_state, torch.set_rng_state, _OWN),
    _Part("numpy's random state", np.random.get_state, np.random.set_state, _OWN),
    _Part("the random state of Python's random", random.getstate, random.setstate, _OWN),
    _Part("the default dtype", torch.get_default_dtype, torch.set_default_dtype, "give dtype= where a tensor is made"),
    _Part("the default device", torch.get_default_device, torch.set_default_device, "give device= instead"),
    _Part("grad mode", torch.is_grad_enabled, torch.set_grad_enabled, "use `with torch.no_grad():` around your lines"),
    _Part(
        "torch's deterministic mode",
        _deterministic,
        lambda value: torch.use_deterministic_algorithms(value[0], warn_only=value[1]),
        "leave it to the run's settings",
    ),
    _Part("torch's number of threads", torch.get_num_threads, torch.set_num_threads, "leave it to the run"),
    _Part(
        "the precision of float32 matmuls",
        torch.get_float32_matmul_precision,
        torch.set_float32_matmul_precision,
        "leave it to the run's settings",
    ),
    _Part("the current folder", os.getcwd, os.chdir, "work with full paths, or give cwd= to a subprocess"),
    _Part("the environment variables", lambda: dict(os.environ), _environment, "give env= to a subprocess instead"),
    _Part("the signal handlers", _handlers, _set_handlers, "leave signals to the trainer; put them back if you must"),
    _Part(
        "the default timeout of sockets", socket.getdefaulttimeout, socket.setdefaulttimeout, "set it on your client"
    ),
)


@contextmanager
def preserved_globals() -> Iterator[list[str]]:
    """Put back whatever the body changes of what the process shares; afterwards the list names what it was."""
    before = [(part, part.read()) for part in _PARTS]
    changed: list[str] = []
    try:
        yield changed
    finally:
        for part, value in before:
            if difference(value, part.read()) is not None:
                part.write(value)
                changed.append(part.name)


@contextmanager
def unchanged_globals(doing: str) -> Iterator[None]:
    """Raise :class:`~grpo_lightning.testing.check.Nonconformity` if the body changes what the process shares.

    That is the random states, default dtype and device, grad mode, deterministic mode, threads, the current folder, the
    environment variables, the signal handlers and the timeout of sockets. They are put back in any case.

    Args:
        doing: What the body does, for the message: ``building it``.
    """
    with preserved_globals() as changed:
        yield
    mends = [part.mend for part in _PARTS if part.name in changed]
    must = "A component leaves alone what the whole process shares"
    expect(not changed, must, f"{doing} changed {', '.join(changed)}", "; ".join(dict.fromkeys(mends)))
