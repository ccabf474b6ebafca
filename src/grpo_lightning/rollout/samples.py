"""A rollout as it is reported: its table, what was kept, and a few of its rows as text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from grpo_lightning.reports import RolloutReport, Sample
from grpo_lightning.rewards.counts import counts_of_ranks
from grpo_lightning.rollout import world
from grpo_lightning.rollout.collector import Collected
from grpo_lightning.rollout.evaluate import EvaluatedRow
from grpo_lightning.types import Episode

SHOWN_GROUPS = 2


def prompt_text(episode: Episode) -> str:
    """The prompt of an episode, chat messages as ``role: content`` lines."""
    messages = episode.prompt.messages
    if isinstance(messages, str):
        return messages
    return "\n".join(f"{message['role']}: {message['content']}" for message in messages)


def _turns(episode: Episode) -> list[str]:
    texts = []
    for turn in episode.turns:
        texts.append(turn.text)
        if turn.observation is not None:
            texts.append(turn.observation)
    return texts


def _sample(episode: Episode, components: dict[str, Any], reward: float, advantage: float) -> Sample:
    return Sample(
        group=episode.group,
        member=episode.member,
        prompt=prompt_text(episode),
        turns=_turns(episode),
        components={name: None if math.isnan(value) else value for name, value in components.items()},
        reward=None if math.isnan(reward) else reward,
        advantage=advantage,
        length=len(episode.log_probs),
        finish=episode.finish.name.lower(),
    )


def evaluation_samples(rows: Sequence[EvaluatedRow], most: int = 8) -> list[Sample]:
    """A few completions of an evaluation set."""
    return [
        _sample(
            row.episode,
            {name: math.nan if score is None else score for name, score in row.components.items()},
            math.nan if row.reward is None else row.reward,
            0.0,
        )
        for row in rows[:most]
    ]


def rollout_report(
    collected: Collected, run_local_R: Tensor, rollout: int, update: int, compares: bool
) -> RolloutReport:
    """The report of a rollout, the same on all ranks but for its samples."""
    table, own = collected.gathered.table, collected.gathered.own
    version_R = collected.rollouts.version_R
    oldest = int(version_R.min()) if len(version_R) else update
    gathered = world.gather((oldest, run_local_R, collected.sampled_steps, collected.reward_counts, collected.kl_R))
    counts = counts_of_ranks([each for *_, each, _ in gathered])
    groups = _shown_groups(collected)
    shown = [i for i, episode in enumerate(collected.episodes) if episode.group in groups]
    samples = [
        _sample(
            collected.episodes[i],
            {name: float(values[own][i]) for name, values in table.components.items()},
            float(table.rewards_R[own][i]),
            float(collected.advantages_R[own][i]),
        )
        for i in shown
    ]
    paid = [kl_R for *_, kl_R in gathered if kl_R is not None]
    prompt_steps = int(collected.rollouts.prompts.lengths().sum())
    return RolloutReport(
        rollout=rollout,
        update=update,
        table=table,
        advantages_R=collected.advantages_R,
        keep_R=collected.keep_R,
        run_R=torch.cat([run for _, run, *_ in gathered]),
        compares=compares,
        groups_redrawn=collected.redrawn,
        prompt_steps=sum(world.gather(prompt_steps)),
        sampled_steps=sum(steps for _, _, steps, *_ in gathered),
        seconds=dict(collected.seconds),
        samples=samples,
        staleness=update - min(version for version, *_ in gathered),
        kl_R=torch.cat(paid) if paid else None,
        reward_counts=counts,
    )


def _shown_groups(collected: Collected) -> set[int]:
    groups = sorted({episode.group for episode in collected.episodes})
    return set(groups[:SHOWN_GROUPS])
