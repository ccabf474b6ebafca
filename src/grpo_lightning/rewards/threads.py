"""Calls in a thread, which is left behind where a call hangs."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

import torch

from grpo_lightning.errors import ConfigError
from grpo_lightning.rewards import failures
from grpo_lightning.rewards.abandoned import note_hang
from grpo_lightning.rewards.calls import Call, scorer_of
from grpo_lightning.rewards.scores import RowResult, read_rows


class _Task:
    """One attempt, and what came of it."""

    def __init__(self, score: Callable[[], Any], turns: list[int]) -> None:
        self.score, self.turns = score, turns
        self.done = threading.Event()
        self.results: list[RowResult] = []
        self.error: ConfigError | None = None

    def run(self, loop: Callable[[Awaitable[Any]], Any]) -> None:
        torch.set_grad_enabled(False)  # it belongs to a thread, and an earlier call may have changed it
        try:
            returned = self.score()
            self.results = read_rows(loop(returned) if inspect.isawaitable(returned) else returned, self.turns)
        except ConfigError as error:
            self.error = error
        except BaseException as error:  # SystemExit too: it would end the thread, and nobody would hear of it
            self.results = failures.raised(error, len(self.turns))
        self.done.set()


class ThreadPlace:
    """Runs one call at a time in a thread of its own, without gradient. What a call left behind returns is dropped."""

    def __init__(self) -> None:
        self._inbox: SimpleQueue[_Task | None] | None = None
        self._thread: threading.Thread | None = None
        self._task: _Task | None = None

    def run(self, call: Call) -> list[RowResult]:
        """What the call gives each row.

        Raises:
            ConfigError: If the reward raises it.
            RewardError: If too many threads were left behind.
        """
        task = self._task = _Task(scorer_of(call, call.arguments()), call.turns)
        thread, inbox = self._ready()
        inbox.put(task)
        if not task.done.wait(call.entry.timeout):
            inbox.put(None)  # should it ever come to itself
            self._inbox = self._thread = None
            call.abandoned.add(thread)
            note_hang()
            return failures.timed_out(call.entry.timeout, len(task.turns))
        if task.error is not None:
            raise task.error
        return task.results

    def _ready(self) -> tuple[threading.Thread, SimpleQueue[_Task | None]]:
        if self._thread is None or self._inbox is None:
            self._inbox = SimpleQueue()
            self._thread = threading.Thread(target=_work, args=(self._inbox,), name="reward", daemon=True)
            self._thread.start()
        return self._thread, self._inbox

    def interrupt(self) -> None:
        """Let :meth:`run` return now."""
        if self._task is not None:
            self._task.done.set()

    def close(self) -> None:
        """End the thread when its call has ended."""
        if self._inbox is not None:
            self._inbox.put(None)


def _work(inbox: SimpleQueue[_Task | None]) -> None:
    loop = OwnLoop()
    while (task := inbox.get()) is not None:
        task.run(loop)
    loop.close()


class OwnLoop:
    """Runs awaitables to their end in the calling thread; made when there is one, and kept."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def __call__(self, awaitable: Awaitable[Any]) -> Any:
        async def wait() -> Any:
            return await awaitable

        self._loop = self._loop or asyncio.new_event_loop()
        return self._loop.run_until_complete(wait())

    def close(self) -> None:
        """Give back what it holds."""
        if self._loop is not None:
            self._loop.close()


def run_here(call: Call) -> list[RowResult]:
    """What the call gives each row, run in the calling thread; Ctrl-C goes through it.

    Raises:
        ConfigError: If the reward raises it.
    """
    score, turns = scorer_of(call, call.arguments()), call.turns
    try:
        with torch.no_grad():
            returned = score()
        return read_rows(_awaited(returned) if inspect.isawaitable(returned) else returned, turns)
    except ConfigError:
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return failures.raised(error, len(turns))


def _awaited(awaitable: Awaitable[Any]) -> Any:
    """Its result, from a thread: a loop may be running in this one."""

    async def wait() -> Any:
        with torch.no_grad():
            return await awaitable

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, wait()).result()
