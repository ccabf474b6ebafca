"""Async calls, in an event loop of the entry's own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Callable
from typing import Any

import torch

from grpo_lightning.errors import ConfigError
from grpo_lightning.rewards import failures
from grpo_lightning.rewards.abandoned import note_hang
from grpo_lightning.rewards.calls import Call, scorer_of
from grpo_lightning.rewards.scores import RowResult, read_rows

GRACE = 1.0
"""Seconds that a call may take to end once it is cancelled, before its loop is left behind."""


class LoopPlace:
    """Runs calls in a loop, in a thread without gradient; one loop for all calls of an entry.

    The loop lives as long as the run, so that a client that a reward keeps between rollouts stays usable. A call that blocks
    it, or does not let itself be cancelled, is left behind with it; the next call gets a new loop.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._interrupted = False
        self._waiting: set[concurrent.futures.Future[Any]] = set()

    def run(self, call: Call) -> list[RowResult]:
        """What the call gives each row.

        Raises:
            ConfigError: If the reward raises it.
            RewardError: If too many threads were left behind.
        """
        timeout, turns = call.entry.timeout, call.turns
        attempt = _attempt(scorer_of(call, call.arguments()), timeout, turns)
        loop, thread = self._ready()
        future = asyncio.run_coroutine_threadsafe(attempt, loop)
        self._waiting.add(future)
        try:
            return future.result(None if timeout is None else timeout + GRACE)
        except concurrent.futures.CancelledError:
            if self._interrupted:
                return []
            return failures.raised(RuntimeError("it was cancelled from inside"), len(turns))
        except TimeoutError:
            if self._leave(loop):
                call.abandoned.add(thread)
            return _late(timeout, turns)
        finally:
            self._waiting.discard(future)

    def _ready(self) -> tuple[asyncio.AbstractEventLoop, threading.Thread]:
        with self._lock:
            if self._loop is None or self._thread is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_serve, args=(self._loop,), name="async reward", daemon=True)
                self._thread.start()
            return self._loop, self._thread

    def _leave(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Use another loop from now on; false where another call has seen to it already."""
        with self._lock:
            if loop is not self._loop:
                return False
            self._loop = self._thread = None
        _later(loop)  # should it ever come to itself
        return True

    def interrupt(self) -> None:
        """Let :meth:`run` return now."""
        self._interrupted = True
        for future in list(self._waiting):
            future.cancel()

    def close(self) -> None:
        """Cancel what runs, and end the thread."""
        self.interrupt()
        with self._lock:
            if self._loop is not None:
                _later(self._loop)
            self._loop = self._thread = None


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    while loop not in _ENDED:  # a reward may stop it, or end it with SystemExit in a task of its own
        with contextlib.suppress(BaseException):
            loop.run_forever()
    loop.close()
    _ENDED.discard(loop)


_ENDED: set[asyncio.AbstractEventLoop] = set()
"""Loops that are to end."""


def _later(loop: asyncio.AbstractEventLoop) -> None:
    """Let a loop end when its tasks have."""
    with contextlib.suppress(RuntimeError):  # it has ended already
        loop.call_soon_threadsafe(_stop_when_idle, loop)


def _stop_when_idle(loop: asyncio.AbstractEventLoop) -> None:
    if asyncio.all_tasks(loop):
        loop.call_later(0.2, _stop_when_idle, loop)
    else:
        _ENDED.add(loop)
        loop.stop()


def _late(timeout: float | None, turns: list[int]) -> list[RowResult]:
    note_hang()
    return failures.timed_out(timeout, len(turns))


async def _attempt(score: Callable[[], Any], timeout: float | None, turns: list[int]) -> list[RowResult]:
    limit = asyncio.timeout(timeout)
    torch.set_grad_enabled(False)  # it belongs to a thread, and an earlier call may have changed it
    try:
        async with limit:
            returned = await score()
        if limit.expired():  # it has swallowed its cancellation
            return _late(timeout, turns)
        return read_rows(returned, turns)
    except ConfigError:
        raise
    except TimeoutError as error:
        return _late(timeout, turns) if limit.expired() else failures.raised(error, len(turns))
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return failures.raised(RuntimeError("it was cancelled from inside"), len(turns))
    except BaseException as error:  # SystemExit too: it would end the loop, and nobody would hear of it
        return failures.raised(error, len(turns))
