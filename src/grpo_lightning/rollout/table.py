"""The table of all rows: this rank's scalars, and those of every rank."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from grpo_lightning.rollout import world
from grpo_lightning.types import Episode, Prompt, Rollouts, RolloutTable


@dataclass(frozen=True)
class GatheredTable:
    """The rows of all ranks and where this rank's are among them."""

    table: RolloutTable
    own: slice
    """Rows of this rank; their order is that of its rollouts."""

    def local(self, values_R: Tensor) -> Tensor:
        """The entries of this rank's rows."""
        return values_R[self.own]


def local_table(
    rollouts: Rollouts,
    episodes: Sequence[Episode],
    rewards_R: Tensor,
    components: Mapping[str, Tensor],
    reward_epsilon: float,
    weights: Mapping[str, Tensor] | None = None,
    columns: Sequence[str] = (),
    parts_R: Tensor | None = None,
) -> RolloutTable:
    """The table of one rank's rows.

    Args:
        rollouts: Its rows.
        episodes: Their episodes.
        rewards_R: [R] float64: composed rewards, NaN where a row abstains.
        components: [R] float64 by reward name.
        reward_epsilon: Machine epsilon of the type the rewards arrived in.
        weights: [R] float64 by reward name.
        columns: Columns of the data set whose values the estimator tells apart.
        parts_R: [R] float64: sum of the magnitudes that were added up to each reward.
    """
    lengths_R = rollouts.lengths_R
    return RolloutTable(
        group_R=rollouts.group_R,
        prompt_R=torch.tensor([_prompt_id(episode.prompt) for episode in episodes], dtype=torch.int64),
        trajectory_R=rollouts.trajectory_R,
        member_R=rollouts.member_R,
        rewards_R=rewards_R,
        valid_R=torch.isfinite(rewards_R) & (lengths_R > 0),
        lengths_R=lengths_R,
        turns_R=torch.tensor([len(episode.turns) for episode in episodes], dtype=torch.int64),
        finish_R=rollouts.finish_R,
        components=dict(components),
        reward_epsilon=reward_epsilon,
        weights=dict(weights or {}),
        parts_R=parts_R,
        labels={
            column: torch.tensor([key(episode.prompt.columns.get(column)) for episode in episodes], dtype=torch.int64)
            for column in columns
        },
    )


def key(value: object) -> int:
    """A number of 63 bits for a value, equal for equal values in every process and run; collisions do not happen."""
    return int.from_bytes(hashlib.blake2b(repr(value).encode(), digest_size=8).digest(), "big") >> 1


def _prompt_id(prompt: Prompt) -> int:
    # Rows of a single data set are their own ids; those of a mixture's data sets are kept apart.
    return prompt.index if prompt.dataset == "train" else (zlib.crc32(prompt.dataset.encode()) << 31) + prompt.index


def gather_table(table: RolloutTable) -> GatheredTable:
    """The rows of every rank, in order of rank: one gathering of scalars a rollout."""
    parts = world.gather(table)
    start = sum(len(part) for part in parts[: world.rank()])
    return GatheredTable(RolloutTable.cat(parts), slice(start, start + len(table)))
