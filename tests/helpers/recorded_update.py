"""One update over rows whose log-probabilities are given: from rewards through the buffer to loss and gradient.

The settings are those below ``model`` in a configuration, so a preset can be tried on numbers that another system, or a
formula, gave.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

import grpo_lightning
from grpo_lightning.kl.base import KLTerm
from grpo_lightning.objective import Objective
from grpo_lightning.rollout.buffer import Buffer, BufferSettings, fill
from grpo_lightning.rollout.collector import Collected
from grpo_lightning.rollout.statistics import UpdateStatistics
from grpo_lightning.rollout.table import GatheredTable
from grpo_lightning.types import FinishReason, Ragged, Rollouts, RolloutTable

TERM_FIELDS = {"weight", "where", "target", "horizon"}


@dataclass
class RecordedRow:
    """One row. Lists have an entry a step, read only where it is trainable."""

    group: int
    rewards: list[float | None]
    """A score by each reward."""
    current: list[float]
    old: list[float]
    sampling: list[float]
    reference: list[float]
    trainable: list[int]
    entropy: list[float] = field(default_factory=list)
    truncated: bool = False
    prompt: list[int] = field(default_factory=lambda: [0])
    completion: list[int] = field(default_factory=list)


class RecordedPolicy:
    """Says what was recorded. The action of a step is its number among all steps."""

    passes = nullcontext

    def __init__(self, rows: Sequence[RecordedRow]) -> None:
        self.leaf = flat(rows, "current").requires_grad_()
        self.reference = flat(rows, "reference")
        self.entropy = flat(rows, "entropy") if all(row.entropy for row in rows) else torch.zeros_like(self.reference)

    def __call__(
        self,
        rows: Rollouts,
        functionals: Collection[str] = (),
        weights: str = "current",
        observed: Collection[str] = (),
    ) -> dict[str, Tensor]:
        steps = rows.actions.values[rows.trainable_S].to(torch.int64)
        said = {"log_prob": (self.leaf if weights == "current" else self.reference)[steps]}
        return said | dict.fromkeys({*functionals, *observed}, self.entropy[steps])


def flat(rows: Sequence[RecordedRow], name: str) -> Tensor:
    """[all steps] float64."""
    return torch.tensor([value for row in rows for value in getattr(row, name)], dtype=torch.float64)


def component(kind: str, value: Any) -> Any:
    """A component as it is written in a configuration."""
    if value is None:
        return None
    options = {"name": value} if isinstance(value, str) else dict(value)
    if "parts" in options:
        options["parts"] = [component(kind, part) for part in options["parts"]]
    return grpo_lightning.create(kind, options.pop("name"), **options)


def objective_of(settings: Mapping[str, Any]) -> Objective:
    """The objective that ``settings`` ask for."""
    kl, written = None, settings.get("kl")
    if written is not None:
        estimator = component("kl", {key: value for key, value in written.items() if key not in TERM_FIELDS})
        kl = KLTerm(estimator=estimator, **{key: value for key, value in written.items() if key in TERM_FIELDS})
    return Objective(
        component("loss", settings["loss"]),
        component("aggregation", settings["aggregation"]),
        kl,
        component("correction", settings.get("correction")),
    )


def rollouts_of(rows: Sequence[RecordedRow], *, actions: Sequence[Sequence[int]], temperature: float = 1.0) -> Rollouts:
    """The rows, each group with a prompt of its own."""
    index = torch.arange(len(rows))
    trainable = torch.tensor([bool(flag) for row in rows for flag in row.trainable])
    group = torch.tensor([row.group for row in rows])
    prompts = {row.group: row.prompt for row in rows}
    return Rollouts(
        prompts=Ragged.from_list([prompts[key] for key in sorted(prompts)], torch.int64),
        prompt_R=group,
        group_R=group,
        member_R=torch.tensor([sum(other.group == row.group for other in rows[:i]) for i, row in enumerate(rows)]),
        trajectory_R=index,
        attempt_R=torch.zeros_like(index),
        finish_R=torch.tensor([int(FinishReason.LENGTH if row.truncated else FinishReason.STOP) for row in rows]),
        temperature_R=torch.full((len(rows),), temperature),
        version_R=torch.zeros_like(index),
        actions=Ragged.from_list([list(each) for each in actions], torch.int64),
        trainable_S=trainable,
        turn_S=torch.zeros_like(trainable, dtype=torch.int64),
        behaviour_log_probs_S=flat(rows, "sampling").float().masked_fill(~trainable, 0.0),
    )


def table_of(rows: Sequence[RecordedRow], rollouts: Rollouts, weights: Sequence[float]) -> RolloutTable:
    """Rewards arrive in float32; a row abstains if all its rewards do."""
    scores = torch.tensor([[float("nan") if each is None else each for each in row.rewards] for row in rows])
    composed = (scores * torch.tensor(weights)).nansum(1).masked_fill(scores.isnan().all(1), torch.nan).double()
    names = [f"reward_{index}" for index in range(len(weights))]
    return RolloutTable(
        group_R=rollouts.group_R,
        prompt_R=rollouts.prompt_R,
        trajectory_R=rollouts.trajectory_R,
        member_R=rollouts.member_R,
        rewards_R=composed,
        valid_R=~composed.isnan() & (rollouts.lengths_R > 0),
        lengths_R=rollouts.lengths_R,
        turns_R=torch.ones_like(rollouts.group_R),
        finish_R=rollouts.finish_R,
        components={name: scores[:, index].double() for index, name in enumerate(names)},
        weights={name: torch.full((len(rows),), float(weights[index])).double() for index, name in enumerate(names)},
        reward_epsilon=torch.finfo(torch.float32).eps,
    )


def collected_of(settings: Mapping[str, Any], rollouts: Rollouts, table: RolloutTable) -> Collected:
    """The rollout with its advantages."""
    advantages_R = component("advantage", settings["advantage"])(table)
    for transform in settings.get("transforms", []):
        advantages_R = component("transform", transform)(advantages_R, table, rollouts)
    return Collected(rollouts, [], GatheredTable(table, slice(0, len(table))), advantages_R,
                     advantages_R[rollouts.row_S], table.valid_R, [], 0, 0, Counter())  # fmt: skip


def buffer_of(settings: Mapping[str, Any], objective: Objective, collected: Collected, budget: int) -> Buffer:
    """One update of micro-batches of ``budget`` tokens."""
    dealt = BufferSettings(
        aggregation=objective.aggregation,
        epochs=1,
        updates=1,
        budget=budget,
        micro_batches=10_000,
        whole_groups=objective.loss.scope == "group",
        run_all=objective.runs_silent_rows,
        mask_truncated=settings.get("generation", {}).get("mask_truncated", False),
        seed=0,
    )
    return fill(collected, dealt, rollout=0)


@dataclass
class Trained:
    """What an update computed."""

    advantages: list[float]
    value: float
    gradient: list[float]
    """One entry a step of all rows, 0 where it is not trained."""


def train(
    settings: Mapping[str, Any],
    rows: Sequence[RecordedRow],
    *,
    weights: Sequence[float] = (1.0,),
    on_policy: bool = False,
    budget: int = 10_000,
) -> Trained:
    """Train the rows in one update.

    Args:
        settings: Settings below ``model``.
        rows: The rows.
        weights: Weight of each reward.
        on_policy: The current policy is the old one.
        budget: Tokens of a micro-batch.
    """
    numbers = torch.arange(sum(len(row.current) for row in rows)).split([len(row.current) for row in rows])
    rollouts = rollouts_of(rows, actions=[part.tolist() for part in numbers])
    objective, policy = objective_of(settings), RecordedPolicy(rows)
    objective.check()
    collected = collected_of(settings, rollouts, table_of(rows, rollouts, weights))
    buffer = buffer_of(settings, objective, collected, budget)
    buffer.old_log_probs_S = None if on_policy else flat(rows, "old")
    buffer.reference_log_probs_S = flat(rows, "reference") if objective.needs_reference_log_probs else None
    value = run(objective, policy, buffer)
    gradient = torch.zeros_like(policy.leaf) if policy.leaf.grad is None else policy.leaf.grad
    return Trained(collected.advantages_R.tolist(), value, gradient.tolist())


def run(objective: Objective, policy: Any, buffer: Buffer) -> float:
    """The update's value; gradients are left where they belong."""
    preview = objective.preview(policy, buffer, 0, (0, 0)) if objective.needs_preview else None
    value = 0.0
    for index in range(len(buffer.plans[0].micro_batches)):
        micro = buffer.micro_batch(0, index, preview)
        assert micro is not None
        loss = objective(policy, micro, UpdateStatistics())
        loss.backward()
        value += loss.item()
    return value
