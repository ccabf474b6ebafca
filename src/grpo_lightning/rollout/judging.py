"""Who scores a rollout, what a score means, and what each row and step has earned by it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from grpo_lightning import profiling
from grpo_lightning.advantages.base import Advantage
from grpo_lightning.kl.base import KLInputs, KLTerm
from grpo_lightning.policies.base import Policy
from grpo_lightning.rewards.composer import compose, turn_rewards
from grpo_lightning.rewards.counts import RewardCounts, add_counts
from grpo_lightning.rewards.firewall import Firewall
from grpo_lightning.rollout.credit import Credit, step_rewards
from grpo_lightning.rollout.micro_batches import micro_batches
from grpo_lightning.rollout.scoring import functionals_of_parts, score_parts
from grpo_lightning.rollout.table import local_table
from grpo_lightning.selectors.base import Selector
from grpo_lightning.transforms.base import Transform
from grpo_lightning.types import Episode, Rollouts, RolloutTable


class Judged(NamedTuple):
    """Rows with their scores."""

    table: RolloutTable
    earned: list[list[float]]
    """What each turn of each row earned."""
    dropped: list[bool]
    """Rows of groups that leave training because a score of one of them failed; empty where there is none."""

    def with_greedy(self, greedy: Judged, members: int) -> RolloutTable:
        """The table, with the rewards of its groups' greedy completions. A group that leaves for that one leaves as a whole."""
        greedy_R = greedy.table.rewards_R.repeat_interleave(members, dim=0)
        table = replace(self.table, greedy_rewards_R=greedy_R)
        if not greedy.dropped:
            return table
        dropped_R = torch.tensor(greedy.dropped).repeat_interleave(members, dim=0)
        rewards_R = table.rewards_R.masked_fill(dropped_R, torch.nan)
        return replace(table, rewards_R=rewards_R, valid_R=table.valid_R & ~dropped_R)


@dataclass(frozen=True)
class Judging:
    """Who scores, and what a score means."""

    firewall: Firewall
    """The rewards."""
    advantage: Advantage
    transforms: Sequence[Transform]
    selector: Selector
    kl: KLTerm | None
    budget: int
    """Tokens of a micro-batch, for passes without gradient."""
    kl_weight: Callable[[], float] = float
    """The coefficient of a KL in the reward, now."""

    @property
    def penalises(self) -> bool:
        """Whether a KL is paid from the reward."""
        return self.kl is not None and self.kl.in_reward

    def table(
        self, rollouts: Rollouts, episodes: list[Episode], version: int, stage: str, counts: RewardCounts
    ) -> Judged:
        """Score some rows; what the rewards' calls came to is added to ``counts``."""
        scores = self.firewall.scores(episodes, update=version, stage=stage)
        add_counts(counts, scores.counts)
        composed = compose(self.firewall.entries, scores)
        columns = self.advantage.columns
        table = local_table(
            rollouts,
            episodes,
            composed.rewards_R,
            composed.components,
            scores.epsilon,
            composed.weights,
            columns,
            composed.parts_R,
        )
        return Judged(table, turn_rewards(scores, composed, table.turns_R.tolist()), scores.dropped)

    def account(
        self, policy: Policy, rollouts: Rollouts, table: RolloutTable, earned: list[list[float]]
    ) -> tuple[RolloutTable, Credit | None, Tensor | None]:
        """Take what a KL costs from the rewards, where the configuration puts it there, and tell what each step earned."""
        per_step = self.advantage.per == "step"
        names = self.advantage.functionals if per_step else frozenset()
        if not (self.penalises or per_step):
            return table, None, None
        functionals: dict[str, Tensor] = {}
        penalty_S = kl_R = None
        if self.penalises or names:
            rows = range(len(rollouts))
            parts = micro_batches(rollouts, rows, self.budget, shared=policy.shares_prompts)
            with profiling.phase(profiling.OLD_LOG_PROBS):
                functionals = functionals_of_parts(policy, rollouts, parts, "current", names)
        if self.penalises and self.kl is not None:
            old_S = functionals["log_prob"]
            with profiling.phase(profiling.REFERENCE_LOG_PROBS):
                reference_S = score_parts(policy, rollouts, parts, "reference")
            values_S = self.kl.estimator(KLInputs(old_S, reference_S, old_S)).double()
            values_S = torch.where(rollouts.trainable_S, values_S, 0.0)
            kl_R = torch.zeros(len(rollouts), dtype=torch.float64).index_add_(0, rollouts.row_S, values_S)
            epsilon = max(table.reward_epsilon, torch.finfo(old_S.dtype).eps)
            weight = self.kl_weight()
            parts_R = table.sizes_R + weight * kl_R.abs()
            table = replace(table, rewards_R=table.rewards_R - weight * kl_R, reward_epsilon=epsilon, parts_R=parts_R)
            penalty_S = weight * values_S
        if not per_step:
            return table, None, kl_R
        doubles = {name: functionals[name].double() for name in {"log_prob", *names} & functionals.keys()}
        return table, Credit(step_rewards(rollouts, earned, penalty_S), doubles), kl_R
