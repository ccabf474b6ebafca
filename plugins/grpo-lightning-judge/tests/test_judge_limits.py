from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

from grpo_lightning_judge import Endpoint, JudgeScore
from grpo_lightning_judge.limits import Limits
from grpo_lightning_judge.toy_server import ToyServer


def test_no_window_holds_more_starts_than_allowed() -> None:
    async def run() -> list[float]:
        limits, starts = Limits(starts=5, concurrent=100, window=0.4), []

        async def one() -> None:
            async with limits.slots:
                await limits.turn()
                starts.append(time.monotonic())

        await asyncio.gather(*(one() for _ in range(17)))
        return starts

    starts = asyncio.run(run())
    assert all(later - earlier >= 0.4 - 0.01 for earlier, later in zip(starts, starts[5:], strict=False))
    assert 1.2 - 0.01 <= starts[-1] - starts[0] < 2.5  # 17 = 3 full windows of 5, then 2


def test_a_pause_holds_everything_back() -> None:
    async def run() -> float:
        limits, start = Limits(starts=None, concurrent=4), time.monotonic()
        limits.pause(0.3)
        assert limits.paused()
        await asyncio.gather(*(limits.turn() for _ in range(8)))
        return time.monotonic() - start

    assert 0.3 <= asyncio.run(run()) < 1.0


def test_concurrent_requests_are_bounded(toy: Callable[..., ToyServer]) -> None:
    server = toy(delay=0.05)
    reward = JudgeScore(judge=Endpoint(base_url=server.base_url, model="toy", concurrent_requests=3))
    asyncio.run(reward.score(prompts=["p"] * 12, completions=[str(number) for number in range(12)]))  # type: ignore[arg-type]
    assert server.busiest == 3
    assert len(server.bodies) == 12


def test_requests_per_minute_hold_for_rewards_with_equal_settings_together(toy: Callable[..., ToyServer]) -> None:
    server = toy()
    judge = Endpoint(base_url=server.base_url, model="toy", requests_per_minute=4)
    one, other = JudgeScore(judge=judge), JudgeScore(judge=judge, low=1)

    async def run() -> None:
        both = (reward.score(prompts=["p"] * 3, completions=["1", "2", "3"]) for reward in (one, other))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*both), timeout=1.0)

    asyncio.run(run())
    assert len(server.bodies) == 4  # the fifth would have to wait for a minute
