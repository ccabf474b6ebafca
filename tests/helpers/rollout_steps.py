"""Rollouts with steps for tests of step-level estimators: adversarial tables, and what their steps earned and were."""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from grpo_lightning.advantages.base import Advantage
from grpo_lightning.steps import RolloutSteps
from grpo_lightning.types import RolloutTable
from helpers.adversarial import tables


@dataclass
class StepRow:
    """A row as loops see it: plain numbers, one a trainable step."""

    group: int
    valid: bool
    rewards: list[float]
    turns: list[int]
    states: list[int]
    distributions: list[list[float]]
    """What each step chose from; it chose the first entry."""
    log_ratios: list[float] = field(default_factory=list)
    """log-probability under the policy minus that under the distribution that sampled."""

    @property
    def length(self) -> int:
        return len(self.rewards)


def table_of(rows: Sequence[StepRow], greedy: Sequence[float] | None = None) -> RolloutTable:
    """The table of hand-made rows, each worth the sum of its steps."""
    count = len(rows)
    group = torch.tensor([row.group for row in rows], dtype=torch.int64)
    members = [sum(other.group == row.group for other in rows[:index]) for index, row in enumerate(rows)]
    return RolloutTable(
        group_R=group,
        prompt_R=group.clone(),
        trajectory_R=torch.arange(count),
        member_R=torch.tensor(members, dtype=torch.int64),
        rewards_R=torch.tensor([math.fsum(row.rewards) for row in rows], dtype=torch.float64),
        valid_R=torch.tensor([row.valid for row in rows], dtype=torch.bool),
        lengths_R=torch.tensor([row.length for row in rows], dtype=torch.int64),
        turns_R=torch.ones(count, dtype=torch.int64),
        finish_R=torch.zeros(count, dtype=torch.int64),
        components={},
        greedy_rewards_R=None if greedy is None else torch.tensor(greedy, dtype=torch.float64),
    )


def step_row(
    group: int,
    rewards: Sequence[float],
    *,
    turns: Sequence[int] | None = None,
    states: Sequence[int] | None = None,
    distributions: Sequence[Sequence[float]] | None = None,
    log_ratios: Sequence[float] | None = None,
    valid: bool = True,
) -> StepRow:
    """A hand-made row: one turn, no state, even choices between two, sampled from the policy, unless told otherwise."""
    count = len(rewards)
    return StepRow(
        group=group,
        valid=valid,
        rewards=list(rewards),
        turns=list(turns or [0] * count),
        states=list(states or [-1] * count),
        distributions=[list(each) for each in distributions or [[0.5, 0.5]] * count],
        log_ratios=list(log_ratios or [0.0] * count),
    )


def steps_of(rows: Sequence[StepRow], first: int = 0) -> RolloutSteps:
    """The steps of some rows, which stand in the table from row ``first`` on."""

    def flat(name: str, dtype: torch.dtype = torch.float64) -> Tensor:
        return torch.tensor([each for row in rows for each in getattr(row, name)], dtype=dtype)

    chosen = [math.log(each[0]) for row in rows for each in row.distributions]
    squares = [math.fsum(p * p for p in each) for row in rows for each in row.distributions]
    log_prob = torch.tensor(chosen, dtype=torch.float64)
    return RolloutSteps(
        row_S=torch.repeat_interleave(
            torch.arange(first, first + len(rows)), torch.tensor([row.length for row in rows], dtype=torch.int64)
        ),
        turn_S=flat("turns", torch.int64),
        rewards_S=flat("rewards"),
        functionals={"log_prob": log_prob, "sum_of_squares": torch.tensor(squares, dtype=torch.float64)},
        behaviour_log_probs_S=log_prob - flat("log_ratios"),
        state_S=flat("states", torch.int64),
    )


@st.composite
def rollouts(draw: Any, *, largest: int = 32) -> tuple[RolloutTable, list[StepRow]]:
    """A table as ``tables`` makes it, and its rows with steps.

    A row's reward is earned by its last step, or spread over its steps, or paid for step by step with a small penalty on
    each; a whole rollout does one of them. Steps are dealt into turns, and turns begin in one of a few states or in none.
    Choices range from certain (probability 1) to unlikely, and importance weights from e^-20 to e^20.
    """
    table = draw(tables(largest=largest))
    how = draw(st.sampled_from(["last", "last", "spread", "penalty"]))
    rng = random.Random(draw(st.integers(0, 2**32 - 1)))
    states, certain = rng.choice([1, 2, 4]), rng.choice([0.0, 0.2, 1.0])
    rows = []
    for row in range(len(table)):
        length, reward = int(table.lengths_R[row]), float(table.rewards_R[row])
        turns = _turns(rng, length)
        begun = {turn: rng.randint(-1, states - 1) for turn in turns}
        rows.append(
            StepRow(
                group=int(table.group_R[row]),
                valid=bool(table.valid_R[row]),
                rewards=_earned(rng, how, length, reward),
                turns=turns,
                states=[begun[turn] for turn in turns],
                distributions=[_distribution(rng, certain) for _ in range(length)],
                log_ratios=[rng.choice([0.0, -20.0, 20.0, rng.uniform(-1, 1)]) for _ in range(length)],
            )
        )
    if how == "penalty":
        paid = [math.fsum(row.rewards) if row.rewards else float("nan") for row in rows]
        table = replace(table, rewards_R=torch.tensor(paid, dtype=torch.float64))
    return table, rows


def rounding(rows: Sequence[StepRow]) -> float:
    """What sums over the steps of one row may be off by: 1e-13 of the largest sum of magnitudes."""
    return 1e-13 * max((math.fsum(map(abs, row.rewards)) for row in rows if row.valid), default=0.0)


def _turns(rng: random.Random, length: int) -> list[int]:
    turns, turn = [], 0
    for step in range(length):
        turn += step > 0 and rng.random() < 0.4
        turns.append(int(turn))
    return turns


def _earned(rng: random.Random, how: str, length: int, reward: float) -> list[float]:
    if how == "spread":
        shares = [rng.random() for _ in range(length)]
        return [reward * share / sum(shares) for share in shares]
    earned = [0.0] * length
    if length:
        earned[-1] = reward
    return [each - rng.random() * 1e-3 for each in earned] if how == "penalty" else earned


def _distribution(rng: random.Random, certain: float) -> list[float]:
    if rng.random() < certain:
        return [1.0, 0.0, 0.0]
    chosen = rng.choice([0.5, 1e-3, 0.999, rng.uniform(0.01, 0.99)])
    other = rng.random()
    return [chosen, (1 - chosen) * other, (1 - chosen) * (1 - other)]


def on_two_ranks(
    estimator: Advantage, table: RolloutTable, rows: Sequence[StepRow], cut: int
) -> tuple[list[float], list[int]]:
    """Call the estimator on two ranks, rows before ``cut`` on the first. Returns the advantages and the calls of each rank.

    Sums are taken in order of ranks, and a rank that adds up less often than the other one fails.
    """
    barrier = threading.Barrier(2, timeout=20)
    slots: list[Any] = [None, None]
    results: list[Any] = [None, None]
    calls = [0, 0]

    def play(rank: int) -> None:
        def sum_ranks(values: Tensor) -> Tensor:
            calls[rank] += 1
            slots[rank] = values.clone()
            barrier.wait()
            total = slots[0] + slots[1]
            barrier.wait()
            return total

        mine = rows[:cut] if rank == 0 else rows[cut:]
        own = steps_of(mine, 0 if rank == 0 else cut)
        try:
            results[rank] = estimator(table, RolloutSteps(**{**vars(own), "sum_ranks": sum_ranks})).tolist()
        except BaseException:
            barrier.abort()
            raise

    threads = [threading.Thread(target=play, args=(rank,)) for rank in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results[0] + results[1], calls
