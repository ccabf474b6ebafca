"""The GRPO loss of an update, by loops over rows and tokens in float64, from the formulae alone.

Notation: ``lp`` log-probability under the current policy, ``old`` at the start of the updates, ``mu`` of what sampled,
``ref`` of the reference. Only the transformers model itself is called, one unpadded row at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from grpo_lightning.rollout.collector import Collected
from grpo_lightning.rollout.table import GatheredTable
from grpo_lightning.types import FinishReason, Ragged, Rollouts, RolloutTable
from helpers.tiny_policy import row_distributions


@dataclass
class HandRow:
    """One row. ``old`` and ``mu`` have an entry for every action, read only where ``written``."""

    group: int
    prompt: list[int]
    actions: list[int]
    written: list[bool]
    advantage: float
    old: list[float] = field(default_factory=list)
    mu: list[float] = field(default_factory=list)
    temperature: float = 1.0
    truncated: bool = False

    @property
    def length(self) -> int:
        return sum(self.written)


@dataclass(frozen=True)
class HandLoss:
    """What is computed: names as in the configuration."""

    aggregation: str = "token_mean"
    low: float = 0.2
    high: float = 0.28
    kl: str | None = None
    beta: float = 0.0
    cap: float | None = None
    level: str = "step"
    constant: int = 9
    mask_truncated: bool = False

    def counted(self, row: HandRow) -> bool:
        return row.length > 0 and not (self.mask_truncated and row.truncated)


def example_rows(model: Any, *, seed: int = 0, far: float = 0.6) -> list[HandRow]:
    """Nine rows in four uneven groups: prompts and lengths differ, two rows hold steps of an environment, one is
    truncated, one has advantage 0 among others, and the last group is silent. Ratios are between exp(-far) and exp(far).
    """
    generator = torch.Generator().manual_seed(seed)

    def integers(count: int) -> list[int]:
        return torch.randint(3, 99, (count,), generator=generator).tolist()

    prompts = {7: integers(5), 2: integers(3), 4: integers(8), 9: integers(2)}
    shape = [(7, 4, 1.1), (7, 1, -0.4), (7, 9, -0.7), (2, 6, 0.8), (2, 3, -0.8), (4, 7, 1.5), (4, 12, -1.5), (4, 2, 0.0),
             (9, 5, 0.0)]  # fmt: skip
    rows = [HandRow(group, prompts[group], integers(n), [True] * n, a) for group, n, a in shape]
    rows[2].written[3:6] = [False] * 3
    rows[6].written[5:9] = [False] * 4
    rows[5].truncated = True
    for row in rows:
        row.temperature = 1.0 if row.group != 4 else 0.75
        with torch.no_grad():
            distributions = row_distributions(model, row.prompt, row.actions, row.temperature)
        exact = [float(distributions[step, token]) for step, token in enumerate(row.actions)]
        noise = (torch.rand(2, len(exact), generator=generator, dtype=torch.float64) * 2 - 1).tolist()
        row.old = [value + far * delta for value, delta in zip(exact, noise[0], strict=True)]
        # What is stored of the sampler is float32: the same numbers must be seen on both sides.
        mu = torch.tensor([value + far * delta for value, delta in zip(row.old, noise[1], strict=True)])
        row.mu = mu.double().tolist()
    return rows


def step_weight(loss: HandLoss, rows: Sequence[HandRow], row: HandRow) -> float:
    """Weight of each written step of ``row`` among the counted ``rows`` of its update."""
    n, total = len(rows), sum(each.length for each in rows)
    group_total = sum(each.length for each in rows if each.group == row.group)
    return {
        "token_sum": 1.0,
        "token_mean": 1 / total,
        "sequence_mean_token_sum": 1 / n,
        "sequence_mean_token_mean": 1 / (n * row.length),
        "constant_length": 1 / (n * loss.constant),
        "prompt_mean": 1 / (len({each.group for each in rows}) * group_total),
    }[loss.aggregation]


def _kl(name: str, lp_V: Tensor, ref_V: Tensor, token: int, old: float) -> Tensor:
    d = lp_V[token] - ref_V[token]
    if name == "k1":
        return d
    if name == "abs":
        return d.abs()
    if name == "k2":
        return d * d / 2
    if name == "k3":
        return (-d).exp() - 1 + d
    if name == "k3_unbiased":
        return (lp_V[token] - old).exp() * ((-d).exp() - 1 + d)
    assert name == "exact"
    return sum((lp.exp() * (lp - ref) for lp, ref in zip(lp_V, ref_V, strict=True)), torch.zeros((), dtype=lp_V.dtype))


def hand_loss(
    model: Any, rows: Sequence[HandRow], loss: HandLoss, *, reference: Any = None, on_policy: bool = False
) -> Tensor:
    """The loss of an update that holds ``rows``, with gradient. ``on_policy``: old log-probabilities are the current ones."""
    rows = [row for row in rows if loss.counted(row)]
    total = torch.zeros((), dtype=torch.float64)
    for row in rows:
        lp_TV = row_distributions(model, row.prompt, row.actions, row.temperature)
        steps = [step for step in range(len(row.actions)) if row.written[step]]
        lps = [lp_TV[step, row.actions[step]] for step in steps]
        olds = [float(lp.detach()) for lp in lps] if on_policy else [row.old[step] for step in steps]
        kappas = [old - row.mu[step] for old, step in zip(olds, steps, strict=True)] if loss.cap is not None else []
        if reference is not None:
            with torch.no_grad():
                ref_TV = row_distributions(reference, row.prompt, row.actions, row.temperature)
        for index, step in enumerate(steps):
            ratio = (lps[index] - olds[index]).exp()
            limited = ratio.clamp(1 - loss.low, 1 + loss.high)
            term = -torch.minimum(ratio * row.advantage, limited * row.advantage)
            if loss.cap is not None:
                log_kappa = sum(kappas) if loss.level == "sequence" else kappas[index]
                term = term * min(float(torch.tensor(log_kappa, dtype=torch.float64).exp()), loss.cap)
            if loss.kl is not None:
                term = term + loss.beta * _kl(loss.kl, lp_TV[step], ref_TV[step], row.actions[step], olds[index])
            total = total + step_weight(loss, rows, row) * term
    return total


def to_collected(rows: Sequence[HandRow]) -> Collected:
    """The same rows as a finished rollout of one rank, advantages given."""
    prompts: dict[tuple[int, ...], int] = {}
    prompt_R = [prompts.setdefault(tuple(row.prompt), len(prompts)) for row in rows]
    members: dict[int, int] = {}
    member_R = []
    for row in rows:
        member_R.append(members.get(row.group, 0))
        members[row.group] = member_R[-1] + 1
    index = torch.arange(len(rows))
    written = torch.tensor([flag for row in rows for flag in row.written], dtype=torch.bool)
    rollouts = Rollouts(
        prompts=Ragged.from_list([list(prompt) for prompt in prompts], torch.int64),
        prompt_R=torch.tensor(prompt_R),
        group_R=torch.tensor([row.group for row in rows], dtype=torch.int64),
        member_R=torch.tensor(member_R),
        trajectory_R=index,
        attempt_R=torch.zeros_like(index),
        finish_R=torch.tensor([int(FinishReason.LENGTH if row.truncated else FinishReason.STOP) for row in rows]),
        temperature_R=torch.tensor([row.temperature for row in rows], dtype=torch.float32),
        version_R=torch.zeros_like(index),
        actions=Ragged.from_list([row.actions for row in rows], torch.int64),
        trainable_S=written,
        turn_S=torch.zeros_like(written, dtype=torch.int64),
        behaviour_log_probs_S=torch.tensor([value for row in rows for value in row.mu]).masked_fill(~written, 0.0),
    )
    table = RolloutTable(
        group_R=rollouts.group_R,
        prompt_R=rollouts.prompt_R,
        trajectory_R=index,
        member_R=rollouts.member_R,
        rewards_R=torch.zeros(len(rows), dtype=torch.float64),
        valid_R=rollouts.lengths_R > 0,
        lengths_R=rollouts.lengths_R,
        turns_R=torch.ones_like(index),
        finish_R=rollouts.finish_R,
        components={},
    )
    advantages_R = torch.tensor([row.advantage for row in rows], dtype=torch.float64)
    return Collected(
        rollouts=rollouts,
        episodes=[],
        gathered=GatheredTable(table, slice(0, len(rows))),
        advantages_R=advantages_R,
        advantages_S=advantages_R[rollouts.row_S],
        keep_R=table.valid_R,
        prompts=[],
        redrawn=0,
        sampled_steps=0,
        reward_counts={},
    )


def old_log_probs(rows: Sequence[HandRow]) -> Tensor:
    """[S] float64: what the rows say about the start of the updates."""
    return torch.tensor([value for row in rows for value in row.old], dtype=torch.float64)


def permuted(rows: Sequence[HandRow], order: Sequence[int]) -> list[HandRow]:
    """The rows in another order."""
    return [replace(rows[index]) for index in order]
