"""A whole rollout: sample, score, estimate, select; again where the selector asks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from grpo_lightning import profiling
from grpo_lightning.rewards.counts import RewardCounts
from grpo_lightning.rollout import world
from grpo_lightning.rollout.credit import Credit, rollout_steps
from grpo_lightning.rollout.judging import Judging
from grpo_lightning.rollout.play import Finished, Group, PlaySettings, play
from grpo_lightning.rollout.played import Played
from grpo_lightning.rollout.submitted import Submitted
from grpo_lightning.rollout.table import GatheredTable, gather_table
from grpo_lightning.types import Episode, Rollouts, RolloutTable

Draw = Callable[[int], list[tuple[str, int]]]
"""Draws the next n prompts of the curriculum, as (data set, index)."""


@dataclass
class Collected:
    """A rollout, ready for the buffer."""

    rollouts: Rollouts
    """This rank's rows."""
    episodes: list[Episode]
    gathered: GatheredTable
    advantages_R: Tensor
    """[R] float64 over all rows: final advantages, the largest in magnitude where they differ by step."""
    advantages_S: Tensor
    """[S] float64 over this rank's steps."""
    keep_R: Tensor
    """[R] bool over all rows."""
    prompts: list[tuple[str, int]]
    """(data set, index) of every group, all ranks."""
    redrawn: int
    sampled_steps: int
    """Steps written by the policy on this rank, in all rounds."""
    reward_counts: RewardCounts
    """What the rewards' calls on this rank came to, in all rounds."""
    seconds: dict[str, float] = field(default_factory=dict)
    kl_R: Tensor | None = None
    """[R] float64 over this rank's rows: KL that each row paid from its reward, before the coefficient."""

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Add the time of a block to ``phase``."""
        with profiling.timed(self.seconds, phase):
            yield


class Collector:
    """Collects rollouts. An engine of its own process may work between :meth:`submit` and :meth:`wait`.

    Args:
        settings: Who plays.
        judging: Who scores.
        draw: Draws prompts, equally on all ranks.
        group: Makes the group of an ordinal from a (data set, index).
        groups: Groups of a rollout, all ranks.
        greedy: Who plays the greedy completions, for an estimator that asks for them.
    """

    def __init__(
        self,
        settings: PlaySettings,
        judging: Judging,
        draw: Draw,
        group: Callable[[int, tuple[str, int]], Group],
        groups: int,
        greedy: PlaySettings | None = None,
    ) -> None:
        self.greedy = greedy
        self.settings, self.judging, self._draw, self._group, self.groups = settings, judging, draw, group, groups
        self.submitted: Submitted | None = None
        """The rollout that is submitted and not waited for yet."""

    def submit(self, rollout: int, version: int, *, ahead: bool = False) -> None:
        """Draw the prompts of a rollout, unless a checkpoint has them.

        Args:
            rollout: Its index.
            version: Updates that the weights of now have seen: what is not sampled yet is sampled with them.
            ahead: Sample this rank's part of its first round from now on, in a thread of its own.
        """
        if self.submitted is None:
            self.submitted = Submitted(rollout, self._draw(self.groups), version)
        self.submitted.version = version
        if ahead:
            prompts = self.submitted.prompts
            groups = [self._group(ordinal, prompts[ordinal]) for ordinal in world.block(self.groups)]
            self.submitted.begin(partial(self._played, groups, {"rollout": rollout, "attempt": 0, "version": version}))

    def settle(self) -> None:
        """Wait until no rank samples ahead any more; a collective where one does."""
        if self.submitted is not None:
            self.submitted.settle()
            world.gather(None)

    def wait(self, rollout: int) -> Collected:
        """The finished rollout ``rollout``."""
        submitted, self.submitted = self.submitted, None
        assert submitted is not None
        assert submitted.rollout == rollout
        seconds: dict[str, float] = {}
        with profiling.timed(seconds, "collect"):
            collected = self._collect(submitted, seconds)
        collected.seconds = seconds
        return collected

    def _collect(self, submitted: Submitted, seconds: dict[str, float]) -> Collected:
        prompts, mine = list(submitted.prompts), list(world.block(self.groups))
        parts: dict[int, _Part] = {}
        counts: RewardCounts = {}
        todo, attempt, redrawn, sampled = mine, 0, 0, 0
        while True:
            drawn = self._draw_groups(submitted, attempt, todo, prompts, seconds, counts)
            parts.update(drawn)
            sampled += sum(int(part.rollouts.lengths_R.sum()) for part in drawn.values())
            collected = self._judge([parts[ordinal] for ordinal in mine])
            selection = self.judging.selector(collected.advantages_R, collected.gathered.table, attempt)
            if selection.redraw.numel() == 0:
                break
            again = sorted(selection.redraw.tolist())
            if selection.prompts == "fresh":
                for ordinal, prompt in zip(again, self._draw(len(again)), strict=True):
                    prompts[ordinal] = prompt
            todo, attempt, redrawn = (
                [ordinal for ordinal in again if ordinal in mine],
                attempt + 1,
                redrawn + len(again),
            )
        self.judging.advantage.observe(replace(collected.gathered.table, valid_R=collected.keep_R))
        return replace(
            collected,
            keep_R=selection.keep_R & collected.keep_R,
            prompts=prompts,
            redrawn=redrawn,
            sampled_steps=sampled,
            reward_counts=counts,
        )

    def _draw_groups(
        self,
        submitted: Submitted,
        attempt: int,
        ordinals: Sequence[int],
        prompts: Sequence[tuple[str, int]],
        seconds: dict[str, float],
        counts: RewardCounts,
    ) -> dict[int, _Part]:
        """Sample and score some groups of this rank; those of the first round may be sampled already."""
        error: Exception | None = None
        parts: dict[int, _Part] = {}
        with self.settings.policy.passes():
            try:
                if ordinals:
                    groups = [self._group(ordinal, prompts[ordinal]) for ordinal in ordinals]
                    ahead = submitted.played() if attempt == 0 else None
                    address = {"rollout": submitted.rollout, "attempt": attempt, "version": submitted.version}
                    whole = self._part(groups, address, ahead, seconds, counts)
                    parts = _split(whole, self.settings.members, ordinals)
            except Exception as raised:
                self.judging.firewall.close()  # what was submitted of this rollout has nobody to wait for it
                error = raised
        world.raise_together(error)
        return parts

    def _played(self, groups: Sequence[Group], address: dict[str, Any], finished: Finished | None = None) -> Played:
        """Sample some groups."""
        began = time.perf_counter()
        sampled = play(self.settings, groups, **address, finished=finished)
        greedy = None if self.greedy is None else play(self.greedy, groups, **address)
        return Played(sampled, greedy, time.perf_counter() - began)

    def _part(
        self,
        groups: Sequence[Group],
        address: dict[str, Any],
        ahead: Played | None,
        seconds: dict[str, float],
        counts: RewardCounts,
    ) -> _Part:
        version, stage = address["version"], self.settings.stream
        if ahead is None:
            with profiling.phase(profiling.GENERATE):
                played = self._played(groups, address, self._finished(version))
        else:
            played = ahead
        (rollouts, episodes), greedy = played.sampled, played.greedy
        seconds["generate"] = seconds.get("generate", 0.0) + played.seconds
        with profiling.timed(seconds, "reward", profiling.REWARD):
            judged = self.judging.table(rollouts, episodes, version, stage, counts)
            table = judged.table
            if greedy is not None:
                compared = self.judging.table(*greedy, version, stage, counts)
                table = judged.with_greedy(compared, self.settings.members)
        with profiling.timed(seconds, "score"):
            table, credit, kl_R = self.judging.account(self.settings.policy, rollouts, table, judged.earned)
        return _Part(rollouts, episodes, table, credit, kl_R)

    def _finished(self, version: int) -> Finished | None:
        """Who hears of groups that are over; nobody, where no reward can begin before all are."""
        firewall = self.judging.firewall
        if not firewall.overlaps:
            return None
        return partial(firewall.submit, update=version, stage=self.settings.stream)

    def _judge(self, parts: Sequence[_Part]) -> Collected:
        """Advantages of the rollout as it stands, equal on all ranks."""
        rollouts = Rollouts.cat([part.rollouts for part in parts])
        episodes = [episode for part in parts for episode in part.episodes]
        gathered = gather_table(RolloutTable.cat([part.table for part in parts]))
        subset_R = self.judging.selector.subset(gathered.table) & gathered.table.valid_R
        table = replace(gathered.table, valid_R=subset_R)
        advantages_S: Tensor | None = None
        credits = [part.credit for part in parts if part.credit is not None]
        if credits:
            steps = rollout_steps(rollouts, episodes, gathered, Credit.cat(credits))
            advantages_S = torch.zeros(rollouts.trainable_S.shape[0], dtype=torch.float64)
            advantages_S[rollouts.trainable_S] = self.judging.advantage(table, steps)
            advantages_R = torch.zeros(len(table), dtype=torch.float64)
        else:
            advantages_R = self.judging.advantage(table)
        for transform in self.judging.transforms:
            if transform.level == "row":
                advantages_R = transform(advantages_R, table, rollouts)
            else:
                values_S = gathered.local(advantages_R)[rollouts.row_S] if advantages_S is None else advantages_S
                advantages_S = transform(values_S, table, rollouts)
        if advantages_S is None:
            advantages_S = gathered.local(advantages_R)[rollouts.row_S]
        else:
            advantages_R = _largest(advantages_S, rollouts)
        return Collected(
            rollouts=rollouts,
            episodes=episodes,
            gathered=gathered,
            advantages_R=advantages_R,
            advantages_S=advantages_S,
            keep_R=subset_R,
            prompts=[],
            redrawn=0,
            sampled_steps=0,
            reward_counts={},
            kl_R=torch.cat([part.kl_R for part in parts if part.kl_R is not None]) if self.judging.penalises else None,
        )


@dataclass(frozen=True)
class _Part:
    """Some rows of this rank."""

    rollouts: Rollouts
    episodes: list[Episode]
    table: RolloutTable
    credit: Credit | None
    kl_R: Tensor | None


def _split(part: _Part, members: int, ordinals: Sequence[int]) -> dict[int, _Part]:
    """One part a group."""
    parts = {}
    for position, ordinal in enumerate(ordinals):
        rows = torch.arange(position * members, (position + 1) * members)
        own = part.rollouts.select(rows).without_unused_prompts()
        parts[ordinal] = _Part(
            own,
            [part.episodes[row] for row in rows.tolist()],
            part.table.select(rows),
            None if part.credit is None else part.credit.select(part.rollouts.actions.positions(rows)),
            None if part.kl_R is None else part.kl_R[rows],
        )
    return parts


def _largest(advantages_S: Tensor, rollouts: Rollouts) -> Tensor:
    """[R] over all ranks: each row's step advantage of largest magnitude."""
    steps_S = torch.where(rollouts.trainable_S, advantages_S, 0.0)
    zeros_R = torch.zeros(len(rollouts), dtype=torch.float64)
    high_R = zeros_R.scatter_reduce(0, rollouts.row_S, steps_S, "amax")
    low_R = zeros_R.scatter_reduce(0, rollouts.row_S, steps_S, "amin")
    return torch.cat(world.gather(torch.where(high_R >= -low_R, high_R, low_R)))
