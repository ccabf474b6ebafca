"""Between a run and its rewards: whatever these do, the run gets scores, or one named error."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import torch

from grpo_lightning.rewards import failures
from grpo_lightning.rewards.arguments import asks_for_base
from grpo_lightning.rewards.calls import Call, cut
from grpo_lightning.rewards.composer import compose, counts, entry_name
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.guarded import GuardedEntry, Pools
from grpo_lightning.rewards.scores import InvalidScore, RowResult, Scores
from grpo_lightning.types import Episode

log = logging.getLogger(__name__)


class Firewall:
    """Calls the rewards of a run, and contains what goes wrong in them. It owns their threads, processes and caches.

    Args:
        entries: The list of rewards.
    """

    def __init__(self, entries: Sequence[RewardEntry]) -> None:
        self.entries = list(entries)
        self._guarded = [GuardedEntry(entry) for entry in entries]
        self._last = [asks_for_base(entry) for entry in entries]
        self._pools: Pools | None = None
        self._early: dict[tuple[int, ...], Call] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def overlaps(self) -> bool:
        """Whether some rewards can score a group while others are still generated."""
        return any(self._is_early(index) for index in range(len(self.entries)))

    def start(self) -> None:
        """Let rewards load what they need; nothing happens where they have.

        Raises:
            RewardError: If one cannot in its worker process.
        """
        if self._pools is None:
            self._pools = Pools()
            try:
                for guarded in self._guarded:
                    guarded.open(self._pools)
            except BaseException:
                self.close()
                raise

    def submit(self, episodes: Sequence[Episode], *, update: int, stage: str) -> None:
        """Let rewards that need not wait for a whole rollout begin with some of its groups, which are over.

        Args:
            episodes: Rows of whole groups.
            update: Optimizer steps taken so far.
            stage: What they are for.
        """
        self.start()
        for index, guarded in enumerate(self._guarded):
            if self._is_early(index):
                for rows in cut(guarded.entry, episodes):
                    call = guarded.call([episodes[row] for row in rows], update, stage)
                    self._early[_key(index, call.episodes)] = call
                    guarded.put(call)

    def _is_early(self, index: int) -> bool:
        guarded = self._guarded[index]
        if guarded.entry.unit == "rollout" or self._last[index] or guarded.here:
            return False
        return not guarded.needs_core or torch.get_num_threads() < _cores()

    def scores(self, episodes: Sequence[Episode], *, update: int, stage: str) -> Scores:
        """Raw scores of every row by every entry, in the order of the rows however many calls run at once.

        Args:
            episodes: Rows of whole groups; those that were submitted must be the same objects.
            update: Optimizer steps taken so far.
            stage: ``train``, ``validation/NAME`` or ``test/NAME``.

        Returns:
            The scores; a failed one is replaced as its entry's ``on_failure`` says, and counted.

        Raises:
            RewardError: If a score fails under ``on_failure: stop``, or too many calls hang.
            ConfigError: If a reward raises it, or asks for a column that a row lacks.
        """
        try:
            self.start()
            scores = _empty(self.entries, len(episodes))
            first = [index for index, last in enumerate(self._last) if not last]
            self._fill(first, scores, episodes, update, stage)
            if any(self._last):
                base = [self.entries[index] for index in first]
                rewards = compose(base, scores).rewards_R.tolist()
                base_rewards = [None if reward != reward else reward for reward in rewards]
                last = [index for index, last in enumerate(self._last) if last]
                self._fill(last, scores, episodes, update, stage, base_rewards)
            self._drop_groups(scores, episodes)
        except BaseException:  # Ctrl-C too: nothing goes on behind a run that ends
            self.close()
            raise
        return scores

    def _fill(
        self,
        indices: Sequence[int],
        scores: Scores,
        episodes: Sequence[Episode],
        update: int,
        stage: str,
        base_rewards: Sequence[float | None] | None = None,
    ) -> None:
        """Ask some entries, all of which may run at once, and lay what they gave in ``scores``."""
        asked: list[tuple[int, list[int], Call]] = []
        for index in indices:
            guarded = self._guarded[index]
            for rows in cut(guarded.entry, episodes):
                own = [episodes[row] for row in rows]
                call = self._early.pop(_key(index, own), None)
                if call is None:
                    base = None if base_rewards is None else [base_rewards[row] for row in rows]
                    call = guarded.call(own, update, stage, base)
                    guarded.put(call)
                asked.append((index, rows, call))
        for index, _, call in asked:
            if self._guarded[index].here:
                self._guarded[index].run(call)
        for index, rows, call in asked:
            results = call.wait()
            for row, result in zip(rows, results, strict=True):
                self._store(index, row, result, scores, episodes[row])

    def _store(self, index: int, row: int, result: RowResult, scores: Scores, episode: Episode) -> None:
        entry, name = self.entries[index], entry_name(self.entries[index])
        scores.applies[name][row] = True
        if isinstance(result, InvalidScore):
            failure, result = result, failures.replaced(entry, episode, result)
            if not scores.failures[name]:
                log.warning("%s", failures.describe(entry, episode, failure))
            scores.failures[name] += 1
            self._guarded[index].tally.add("failures")
            self._guarded[index].tally.add(f"failures/{failure.kind}")
            if entry.on_failure == "drop_group":
                self._guarded[index].dropped.add(episode.group)
        scores.raw[name][row], scores.turn_scores[name][row] = result.total, result.turns
        if counts(entry):
            scores.epsilon = max(scores.epsilon, result.epsilon)

    def _drop_groups(self, scores: Scores, episodes: Sequence[Episode]) -> None:
        """Mark the rows of groups in which a score failed under ``drop_group``, and take what was counted."""
        dropped: set[int] = set()
        for guarded in self._guarded:
            if guarded.dropped:
                guarded.tally.add("groups_dropped", len(guarded.dropped))
            dropped |= guarded.dropped
            guarded.dropped = set()
            scores.counts[guarded.name] = guarded.tally.take()
        scores.dropped = [episode.group in dropped for episode in episodes] if dropped else []

    def close(self) -> None:
        """Kill worker processes, cancel what is awaited, leave the rest behind. Using it again starts it again."""
        self._early.clear()
        pools, self._pools = self._pools, None
        if pools is not None:
            pools.close()


def _key(index: int, episodes: Sequence[Episode]) -> tuple[int, ...]:
    return (index, *map(id, episodes))


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _empty(entries: Sequence[RewardEntry], rows: int) -> Scores:
    names = [entry_name(entry) for entry in entries]
    return Scores(
        raw={name: [None] * rows for name in names},
        turn_scores={name: [None] * rows for name in names},
        applies={name: [False] * rows for name in names},
        failures=dict.fromkeys(names, 0),
    )
