"""Whole updates for tests of losses that plan, and cutting them into micro-batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from grpo_lightning.losses.base import PolicyLoss
from grpo_lightning.steps import UpdateSteps
from helpers.adversarial import Row, cases, inputs_of

Planned = tuple[list[Row], list[float]]
"""Rows, and one draw a step."""


@st.composite
def planned_cases(draw: Any, **options: Any) -> Planned:
    """Rows of :func:`~helpers.adversarial.cases` and distinct draws for their steps; some steps are copies of others."""
    rows = draw(cases(**options))
    if draw(st.integers(0, 3)) == 0:
        rows.append(replace(rows[0], group=rows[-1].group))
    steps = sum(row.length for row in rows)
    order = draw(st.permutations(range(steps)))
    return rows, [(place + 0.5) / steps for place in order]


def update_of(rows: Sequence[Row], uniforms: Sequence[float] | None = None) -> UpdateSteps:
    """The rows as an update, in float64; draws descend where none are given."""

    def flat(name: str) -> Tensor:
        return torch.tensor([each for row in rows for each in getattr(row, name)], dtype=torch.float64)

    lengths = torch.tensor([row.length for row in rows])
    steps = int(lengths.sum())
    draws = list(uniforms) if uniforms is not None else [1 - (step + 0.5) / steps for step in range(steps)]
    return UpdateSteps(
        log_probs_S=flat("lp"),
        old_log_probs_S=flat("old"),
        behaviour_log_probs_S=flat("mu"),
        advantages_S=flat("advantage"),
        row_S=torch.repeat_interleave(torch.arange(len(rows)), lengths),
        lengths_R=lengths,
        group_R=torch.tensor([row.group for row in rows]),
        uniform_S=torch.tensor(draws, dtype=torch.float64),
    )


def floats(rows: Sequence[Row]) -> list[dict[str, float]]:
    """Every step as plain numbers: ``lp``, ``old``, ``mu`` and ``A``."""
    return [
        {"lp": float(lp), "old": old, "mu": mu, "A": advantage}
        for row in rows
        for lp, old, mu, advantage in zip(row.lp, row.old, row.mu, row.advantage, strict=True)
    ]


def sum_and_gradient(
    loss: PolicyLoss, rows: Sequence[Row], plan_S: Tensor, cuts: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Sum of the terms, and [S] its gradient, of micro-batches that begin at row 0 and at each row of ``cuts``."""
    total, gradients, step = torch.zeros((), dtype=torch.float64), [], 0
    bounds = [0, *cuts, len(rows)]
    for start, end in pairwise(bounds):
        part = list(rows[start:end])
        inputs = inputs_of(part)
        steps = inputs.log_probs_S.shape[0]
        terms = loss(replace(inputs, plan_S=plan_S[step : step + steps])).terms
        gradients.append(torch.autograd.grad(terms.sum(), inputs.log_probs_S)[0])
        total, step = total + terms.detach().sum(), step + steps
    return total, torch.cat(gradients)


def expect_any_cut(loss: PolicyLoss, rows: Sequence[Row], uniforms: Sequence[float] | None = None) -> None:
    """Hold one micro-batch a row, and every cut in two, against the update in one piece."""
    plan_S = loss.plan(update_of(rows, uniforms))
    whole, gradient_S = sum_and_gradient(loss, rows, plan_S, [])
    size = sum(
        (loss(replace(inputs_of([row]), plan_S=torch.zeros(row.length))).terms.abs().sum().item() for row in rows), 1.0
    )
    for cuts in [list(range(1, len(rows))), *([cut] for cut in range(1, len(rows)))]:
        total, gradient = sum_and_gradient(loss, rows, plan_S, cuts)
        assert torch.equal(gradient, gradient_S)
        assert abs(float(total - whole)) <= 1e-12 * size


def expect_same_plan_for_permuted_rows(
    loss: PolicyLoss, rows: Sequence[Row], uniforms: Sequence[float], order: Sequence[int]
) -> None:
    """Hold the plan of the rows in another order, each with its own draws, against the plan in theirs."""
    lengths = [row.length for row in rows]
    plans = loss.plan(update_of(rows, uniforms)).split(lengths)
    draws = torch.tensor(uniforms, dtype=torch.float64).split(lengths)
    moved = [float(draw) for index in order for draw in draws[index]]
    found = loss.plan(update_of([rows[index] for index in order], moved))
    assert found.tolist() == torch.cat([plans[index] for index in order]).tolist()
