"""One entry behind the firewall: where its calls run, and what is counted of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack

from grpo_lightning.errors import ConfigError, RewardError
from grpo_lightning.rewards.abandoned import Abandoned
from grpo_lightning.rewards.cache import ScoreCache
from grpo_lightning.rewards.calls import Call, is_async
from grpo_lightning.rewards.composer import entry_name
from grpo_lightning.rewards.counts import Tally
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.event_loop import LoopPlace
from grpo_lightning.rewards.failures import what_was_raised
from grpo_lightning.rewards.fingerprint import arguments_fingerprint, reward_fingerprint
from grpo_lightning.rewards.lane import Lane, Place, attempt
from grpo_lightning.rewards.scores import RowResult
from grpo_lightning.rewards.threads import ThreadPlace, run_here
from grpo_lightning.rewards.workers import WorkerPlace, pickled
from grpo_lightning.types import Episode


class Pools:
    """What the entries of one run hold while it runs: lanes of calls, and caches by file."""

    def __init__(self) -> None:
        self.lanes: list[Lane] = []
        self.caches: dict[str, ScoreCache] = {}
        self.plain = self.lane([ThreadPlace()])
        """Calls of sync rewards without concurrency: one after another, as they were written to be called."""

    def lane(self, places: Sequence[Place]) -> Lane:
        """One more lane."""
        self.lanes.append(Lane(places, self.caches))
        return self.lanes[-1]

    def close(self) -> None:
        """End everything."""
        with ExitStack() as stack:  # all of them, even if one cannot be
            for close in [each.close for each in self.caches.values()] + [each.close for each in self.lanes]:
                stack.callback(close)


class GuardedEntry:
    """An entry with its calls.

    Args:
        entry: The entry.
    """

    def __init__(self, entry: RewardEntry) -> None:
        self.entry, self.name = entry, entry_name(entry)
        self.tally = Tally()
        self._abandoned = Abandoned(self.name, self.tally)
        self.dropped: set[int] = set()
        """Groups of the rollout that leave training because a score failed."""
        self._async, in_process = is_async(entry.reward.scorer()), entry.isolation == "process"
        self._pickled = pickled(entry.reward) if in_process else b""
        self._fingerprint = reward_fingerprint(entry.reward) if entry.cache else b""
        self.needs_core = not (self._async or in_process)
        """Its calls take time from what else this process computes."""
        self.here = self.needs_core and entry.timeout is None and entry.concurrency == 1
        """Its calls run in the calling thread: nothing limits them, and signals work there."""
        self._set_up = False
        self._pools: Pools | None = None
        self._lane: Lane | None = None

    def open(self, pools: Pools) -> None:
        """Set the reward up, and make the places of its calls.

        Raises:
            RewardError: If it cannot be set up in a worker process.
        """
        entry, self._pools = self.entry, pools
        if entry.cache is not None and entry.cache not in pools.caches:
            pools.caches[entry.cache] = ScoreCache(entry.cache)
        if entry.isolation == "process":
            workers = [WorkerPlace(self._pickled, self.name) for _ in range(entry.concurrency)]
            self._lane = pools.lane(workers)
            workers[0].start()
            return
        if not self._set_up:
            self._set_it_up()
        if self._async:
            self._lane = pools.lane([LoopPlace()] * entry.concurrency)
        elif entry.concurrency > 1:
            self._lane = pools.lane([ThreadPlace() for _ in range(entry.concurrency)])
        else:
            self._lane = pools.plain

    def _set_it_up(self) -> None:
        try:
            self.entry.reward.setup()
        except (ConfigError, KeyboardInterrupt):
            raise
        except BaseException as error:  # SystemExit too: what stops the run is told
            raise RewardError(f"reward {self.name!r}: setup {what_was_raised(error)}") from error
        self._set_up = True

    def call(
        self,
        episodes: list[Episode],
        update: int,
        stage: str,
        base_rewards: Sequence[float | None] | None = None,
    ) -> Call:
        """A call of the entry.

        Raises:
            ConfigError: If a row lacks a column that the key of a cache must have.
        """
        call = Call(self.entry, episodes, update, stage, self.tally, self._abandoned, base_rewards)
        if self.entry.cache is not None:
            call.key = arguments_fingerprint(self._fingerprint, call.arguments())
        return call

    def put(self, call: Call) -> None:
        """Let a call begin when there is room; one that runs in the calling thread waits for :meth:`run`."""
        if not self.here:
            assert self._lane is not None
            self._lane.put(call)

    def run(self, call: Call) -> None:
        """Run a call in the calling thread."""
        assert self._pools is not None
        while (again := attempt(call, _HERE, self._pools.caches)) is not None:
            time.sleep(again)
        call.finish()


class _Here:
    """The calling thread, as a place."""

    def run(self, call: Call) -> list[RowResult]:
        return run_here(call)

    def interrupt(self) -> None:
        """Ctrl-C does."""

    def close(self) -> None:
        """It holds nothing."""


_HERE = _Here()
