"""Log-probabilities that the updates of a buffer need and that do not change while they last."""

from __future__ import annotations

import torch

from grpo_lightning import profiling
from grpo_lightning.policies.base import Policy
from grpo_lightning.rollout.buffer import Buffer
from grpo_lightning.rollout.scoring import score_parts
from grpo_lightning.rollout.silent import count_silent


def score_buffer(policy: Policy, buffer: Buffer, *, reference: bool) -> None:
    """Score the rows of ``buffer`` once, in the company in which they are trained.

    Under the current weights, only rows that the first update does not run are scored: the weights have not moved when it
    runs the others, and what it finds is kept for the updates after it. With one update nothing is left to score.

    Args:
        policy: The policy, as it is before the first update.
        buffer: The rollout on this rank; it is filled in.
        reference: Whether log-probabilities under the reference are needed, of every row that is run.
    """
    rollouts, first = buffer.rollouts, buffer.rows_of(0)
    if len(buffer.plans) > 1:
        later = [rows for rows in buffer.parts() if not bool(torch.isin(rows, first).all())]
        with profiling.phase(profiling.OLD_LOG_PROBS):
            count_silent(buffer, later)
            old_S = score_parts(policy, rollouts, later, "current").double()
        old_S[rollouts.trainable_steps(first)] = torch.nan
        buffer.old_log_probs_S = old_S
    if reference:
        with profiling.phase(profiling.REFERENCE_LOG_PROBS):
            count_silent(buffer, buffer.parts())
            buffer.reference_log_probs_S = score_parts(policy, rollouts, buffer.parts(), "reference")
