from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import torch

from grpo_lightning.rewards.event_loop import run_together


def waiting(gate: list[asyncio.Event], wait: bool) -> Callable[[], Awaitable[str]]:
    async def call() -> str:
        if not gate:
            gate.append(asyncio.Event())
        if wait:
            await asyncio.wait_for(gate[0].wait(), timeout=10)
            return "waited"
        gate[0].set()
        return "freed"

    return call


def test_calls_run_at_once() -> None:
    gate: list[asyncio.Event] = []
    # The first ends only because the second runs beside it.
    assert run_together([waiting(gate, True), waiting(gate, False)]) == ["waited", "freed"]


def test_works_inside_a_running_loop() -> None:
    async def notebook() -> list[str]:
        return run_together([waiting([], False)])

    assert asyncio.run(notebook()) == ["freed"]


def test_exceptions_are_returned() -> None:
    async def broken() -> None:
        raise KeyError("x")

    async def cancelled() -> None:
        raise asyncio.CancelledError

    first, second, third = run_together([broken, cancelled, waiting([], False)])
    assert isinstance(first, KeyError)
    assert isinstance(second, RuntimeError)
    assert third == "freed"


def test_the_loop_stays_so_that_clients_can_be_kept() -> None:
    async def loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    assert run_together([loop]) == run_together([loop])


def test_no_gradient_is_recorded() -> None:
    async def grad() -> bool:
        return torch.is_grad_enabled()

    assert run_together([grad]) == [False]
    assert torch.is_grad_enabled()


def test_nothing_to_call() -> None:
    assert run_together([]) == []
