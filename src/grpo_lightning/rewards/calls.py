"""Rows of a rollout, cut into the calls that rewards get."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from grpo_lightning import preemption
from grpo_lightning.rewards.abandoned import Abandoned
from grpo_lightning.rewards.arguments import collect_arguments
from grpo_lightning.rewards.counts import Tally
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.scores import RowResult
from grpo_lightning.types import Episode, Prompt

PATIENCE = 0.2
"""Seconds that a run which waits for a reward takes at most to hear that it is asked to stop."""


@dataclass
class Call:
    """One entry asked about some rows."""

    entry: RewardEntry
    episodes: list[Episode]
    update: int
    stage: str
    tally: Tally
    abandoned: Abandoned
    base_rewards: Sequence[float | None] | None = None
    attempts: int = 0
    key: bytes | None = None
    """What its scores are cached under."""
    results: list[RowResult] = field(default_factory=list)
    """What the last attempt gave each row."""
    fatal: BaseException | None = None
    """Ends the run whatever the entry's policy."""
    _done: threading.Event = field(default_factory=threading.Event)

    def arguments(self) -> dict[str, Any]:
        """What the reward asks for; lists of its own for each attempt, so that none sees what another did to them.

        Raises:
            ConfigError: If a row lacks a column that it must have.
        """
        return collect_arguments(
            self.entry, self.episodes, update=self.update, stage=self.stage, base_rewards=self.base_rewards
        )

    @property
    def turns(self) -> list[int]:
        """Turns of each row."""
        return [len(episode.turns) for episode in self.episodes]

    def finish(self, fatal: BaseException | None = None) -> None:
        """There will be no further attempt."""
        self.fatal = self.fatal or fatal
        self._done.set()

    def wait(self) -> list[RowResult]:
        """What it gave each row, when it has ended.

        Raises:
            BaseException: What ends the run.
        """
        while not self._done.wait(PATIENCE):
            preemption.check()
        if self.fatal is not None:
            raise self.fatal
        return self.results


def applies_to(entry: RewardEntry, prompt: Prompt) -> bool:
    """Whether the columns of ``prompt`` have the values that the entry's ``when`` asks for; 7 and "7" are equal."""
    for column, wanted in (entry.when or {}).items():
        if column not in prompt.columns:
            return False
        value = prompt.columns[column]
        allowed = wanted if isinstance(wanted, list | tuple) else [wanted]
        if not any(_same(value, each) for each in allowed):
            return False
    return True


def _same(value: Any, wanted: Any) -> bool:
    if value is None or wanted is None:
        return value is wanted
    return bool(value == wanted) or str(value) == str(wanted)


def cut(entry: RewardEntry, episodes: Sequence[Episode]) -> list[list[int]]:
    """The rows of each call, in order: those that the entry applies to, all together, by group or one by one."""
    rows = [row for row, episode in enumerate(episodes) if applies_to(entry, episode.prompt)]
    if entry.unit == "rollout":
        return [rows] if rows else []
    if entry.unit == "row":
        return [[row] for row in rows]
    groups: dict[int, list[int]] = {}
    for row in rows:
        groups.setdefault(episodes[row].group, []).append(row)
    return list(groups.values())


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives an awaitable; one that only turns out to do so counts as sync."""
    while isinstance(function, partial):
        function = function.func
    return any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))


def scorer_of(call: Call, arguments: Mapping[str, Any]) -> Callable[[], Any]:
    """The call of ``score`` itself."""
    return partial(call.entry.reward.score, **arguments)
