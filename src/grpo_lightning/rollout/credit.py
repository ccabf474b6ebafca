"""What each step earned: the view of a rollout that step-level estimators have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from grpo_lightning.rollout import world
from grpo_lightning.rollout.table import GatheredTable, key
from grpo_lightning.steps import RolloutSteps
from grpo_lightning.types import Episode, Rollouts


@dataclass(frozen=True)
class Credit:
    """Values of every step of some rows of this rank, those of the environment included."""

    rewards_S: Tensor
    """[S] float64: what the step earned; 0 where the policy did not write it."""
    functionals: Mapping[str, Tensor]
    """[S] float64 by name, under the policy at the start of the updates."""

    def select(self, steps: Tensor) -> Credit:
        """The steps ``steps``, in that order."""
        return Credit(self.rewards_S[steps], {name: each[steps] for name, each in self.functionals.items()})

    @staticmethod
    def cat(parts: Sequence[Credit]) -> Credit:
        """The steps of all ``parts``, in order."""
        names = parts[0].functionals
        return Credit(
            torch.cat([part.rewards_S for part in parts]),
            {name: torch.cat([part.functionals[name] for part in parts]) for name in names},
        )


def step_rewards(rollouts: Rollouts, earned: Sequence[Sequence[float]], penalty_S: Tensor | None) -> Tensor:
    """[S] float64: a turn's reward at the last step that the policy wrote in it, less what each step pays.

    Args:
        rollouts: Rows.
        earned: Reward of each turn of each row.
        penalty_S: [S] float64: what each step pays, 0 where the policy did not write it.
    """
    rewards_S = torch.zeros(rollouts.trainable_S.shape[0], dtype=torch.float64)
    last: dict[tuple[int, int], int] = {}
    written = rollouts.trainable_S.nonzero().squeeze(1)
    for step, row, turn in zip(
        written.tolist(), rollouts.row_S[written].tolist(), rollouts.turn_S[written].tolist(), strict=True
    ):
        last[row, turn] = step
    for row, turns in enumerate(earned):
        for turn, reward in enumerate(turns):
            if (row, turn) in last:
                rewards_S[last[row, turn]] += reward
    return rewards_S if penalty_S is None else rewards_S - penalty_S


def rollout_steps(
    rollouts: Rollouts, episodes: Sequence[Episode], gathered: GatheredTable, credit: Credit
) -> RolloutSteps:
    """The trainable steps of this rank's rows as an estimator sees them."""
    written_S = rollouts.trainable_S
    row_S, turn_S = rollouts.row_S[written_S], rollouts.turn_S[written_S]
    return RolloutSteps(
        row_S=row_S + gathered.own.start,
        turn_S=turn_S,
        rewards_S=credit.rewards_S[written_S],
        functionals={name: each[written_S] for name, each in credit.functionals.items()},
        behaviour_log_probs_S=rollouts.behaviour_log_probs_S[written_S].to(torch.float64),
        state_S=_states(episodes, row_S, turn_S),
        sum_ranks=_sum_ranks,
    )


def _states(episodes: Sequence[Episode], row_S: Tensor, turn_S: Tensor) -> Tensor | None:
    keys = {
        (row, turn): key(written.state)
        for row, episode in enumerate(episodes)
        for turn, written in enumerate(episode.turns)
        if written.state is not None
    }
    if not any(world.gather(bool(keys))):
        return None
    pairs = zip(row_S.tolist(), turn_S.tolist(), strict=True)
    return torch.tensor([keys.get(pair, -1) for pair in pairs], dtype=torch.int64)


def _sum_ranks(values: Tensor) -> Tensor:
    return torch.stack(world.gather(values)).sum(0)
