"""The event loop that rewards share."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from threading import Thread
from typing import Any

import torch


def run_together(calls: Sequence[Callable[[], Awaitable[Any]]]) -> list[Any]:
    """What each call returns or raises, all of them run at once.

    They run in a thread with a loop of its own, so this also works where the calling thread's loop is running (in a
    notebook). The loop lives as long as the process: a client that a reward keeps between rollouts stays usable.

    Args:
        calls: Functions that return an awaitable; called inside the loop.

    Returns:
        One entry a call, in order: its result, or the exception that it raised.
    """

    async def everything() -> list[Any]:
        return await asyncio.gather(*(_caught(call) for call in calls))

    if not calls:
        return []
    future = asyncio.run_coroutine_threadsafe(everything(), _loop(os.getpid()))
    try:
        return future.result()
    except BaseException:  # Ctrl-C in the calling thread must not leave requests behind
        future.cancel()
        raise


async def _caught(call: Callable[[], Awaitable[Any]]) -> Any:
    try:
        return await call()
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return RuntimeError("it was cancelled from inside")
    except Exception as error:
        return error


@cache
def _loop(process: int) -> asyncio.AbstractEventLoop:
    # By process, for a forked one has the loop but not its thread.
    loop = asyncio.new_event_loop()

    def run() -> None:
        torch.set_grad_enabled(False)  # grad mode belongs to a thread
        asyncio.set_event_loop(loop)
        loop.run_forever()

    Thread(target=run, name="grpo_lightning rewards", daemon=True).start()
    return loop
