"""Steps as estimators, losses and corrections see them when they look beyond one micro-batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor


def _alone(values: Tensor) -> Tensor:
    return values


@dataclass(frozen=True)
class RolloutSteps:
    """Trainable steps of this rank's rows in a whole rollout: what step-level estimators see. Groups are whole on a rank.

    A row's steps follow each other without what the environment wrote between them: returns run over them.
    """

    row_S: Tensor
    """[S] int64: index of the step's row in the table of all ranks, ascending."""
    turn_S: Tensor
    """[S] int64: turn of the step in its row, from 0."""
    rewards_S: Tensor
    """[S] float64: what each step earned; over a row they add up to its reward. A reward for a turn is earned by the turn's
    last step, a reward for the whole row by the row's last step; a KL in the reward is paid step by step."""
    functionals: Mapping[str, Tensor] = field(default_factory=dict)
    """[S] float64 by name: ``log_prob`` and what else the estimator declared, under the policy at the start of the updates."""
    behaviour_log_probs_S: Tensor | None = None
    """[S] float64: log-probability under the distribution that sampled."""
    state_S: Tensor | None = None
    """[S] int64: key of the state in which the step's turn began, equal for equal states, -1 where there is none; ``None`` if
    the environment gives no states."""
    sum_ranks: Callable[[Tensor], Tensor] = _alone
    """Adds a tensor up over all ranks; every rank must call it equally often."""

    def positions(self) -> Tensor:
        """[S] int64: position of each step among the trainable steps of its row, from 0."""
        _, index_S, counts = torch.unique_consecutive(self.row_S, return_inverse=True, return_counts=True)
        starts = torch.cat([counts.new_zeros(1), counts.cumsum(0)[:-1]])
        return torch.arange(self.row_S.shape[0]) - starts[index_S]

    def moments(self, values_S: Tensor, mask_S: Tensor, ddof: int = 1) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of the masked steps of all ranks, in float64; 0 where there are too few."""
        chosen = values_S[mask_S].to(torch.float64)
        count, total = self.sum_ranks(torch.stack([torch.tensor(float(chosen.shape[0])).double(), chosen.sum()]))
        mean = total / count.clamp(min=1)
        squares = self.sum_ranks(((chosen - mean) ** 2).sum())
        return mean, (squares / (count - ddof).clamp(min=1)).sqrt() * (count > ddof)


@dataclass(frozen=True)
class UpdateSteps:
    """Trainable steps of all rows that an update counts, on all ranks, without gradient, in float64.

    Their order is that of group ordinals, members and positions, whatever the ranks, micro-batches and packing are.
    """

    log_probs_S: Tensor
    """[S] under the policy as the update begins."""
    old_log_probs_S: Tensor
    """[S] under the policy at the start of the rollout's updates."""
    behaviour_log_probs_S: Tensor
    """[S] under the distribution that sampled."""
    advantages_S: Tensor
    """[S] advantages."""
    row_S: Tensor
    """[S] int64: row of each step, from 0, ascending."""
    lengths_R: Tensor
    """[R] int64: trainable steps of each row."""
    group_R: Tensor
    """[R] int64: ordinal of each row's group."""
    uniform_S: Tensor
    """[S] in (0, 1): one draw a step, a function of (seed, rollout, update, group, member, position)."""
    functionals: Mapping[str, Tensor] = field(default_factory=dict)
    """[S] by name: the functionals that were declared."""
