"""Adversarial inputs for property tests, and comparing a loss with its formula written as loops.

Advantages: ties, scales from 1e-6 to 1e6, rewards that arrived in float32 or bfloat16, abstentions, empty rows, groups of
1 to 32. Losses: ratios from e^-20 to e^20, rows of one step, advantages of 0 and of extreme size, uneven groups,
log-probabilities rounded to bfloat16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from torch import Tensor

from grpo_lightning.losses.base import LossInputs, PolicyLoss
from grpo_lightning.types import RolloutTable
from helpers.tables import reward_table

CASES = 100
"""Inputs that a property test of a component's formula tries."""
formula_cases = settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
"""Decorator of a test that holds a component against its formula: put it above ``@given``."""

_PLAIN = st.sampled_from([0.0, 1.0, 0.1, 0.3, 0.7, -0.5, 1 / 3])
_SCALE = st.sampled_from([1e-6, 1e-3, 1.0, 1e3, 1e6])
_DTYPE = st.sampled_from([torch.float64, torch.float32, torch.bfloat16])


@st.composite
def tables(
    draw: Any,
    *,
    smallest: int = 1,
    largest: int = 32,
    abstain: bool = True,
    low: float = -1.0,
    binary: bool = False,
    groups: int = 4,
) -> RolloutTable:
    """A reward table; lengths are 0 for some rows.

    Args:
        draw: Given by hypothesis.
        smallest: Fewest rows of a group.
        largest: Most rows of a group.
        abstain: Let some rows abstain.
        low: Smallest reward, before scaling: 0 for estimators of rewards that are not negative.
        binary: Rewards are 0 or 1.
        groups: Most groups.
    """
    scale = 1.0 if binary else draw(_SCALE)
    shift = 0.0 if binary or low >= 0 else draw(st.sampled_from([0.0, 0.0, 1.0, -1e3]))
    number = st.floats(low, 1.0, allow_nan=False, width=32)
    value = st.sampled_from([0.0, 1.0]) if binary else st.one_of(_PLAIN.filter(lambda each: each >= low), number)
    rows: list[list[float | None]] = []
    for _ in range(draw(st.integers(1, groups))):
        size = draw(st.one_of(st.integers(smallest, min(5, largest)), st.integers(smallest, largest)))
        if draw(st.integers(0, 4)) == 0:
            group: list[float | None] = [draw(value)] * size  # unanimous
        else:
            group = draw(st.lists(value, min_size=size, max_size=size))
        rows.append([None if each is None else each * scale + shift for each in group])
        if abstain and draw(st.integers(0, 3)) == 0:
            rows[-1][draw(st.integers(0, size - 1))] = None
    count = sum(map(len, rows))
    lengths = draw(st.lists(st.sampled_from([1, 1, 2, 3, 7, 40]), min_size=count, max_size=count))
    if abstain and draw(st.integers(0, 3)) == 0:
        lengths[draw(st.integers(0, count - 1))] = 0
    return reward_table(rows, dtype=torch.float64 if binary else draw(_DTYPE), lengths=lengths)


@dataclass
class Row:
    """A row as loops see it: plain floats, and scalars with gradient for what the policy says."""

    group: int
    lp: list[Any]
    """log pi_theta of each trainable step: floats in a case, scalar float64 tensors with gradient in a reference."""
    old: list[float]
    mu: list[float]
    advantage: list[float]
    """One value a step; equal over the row unless the case was drawn with ``per_step``."""
    functionals: dict[str, list[Any]] = field(default_factory=dict)
    reward: float = 0.0
    version: int = 0

    @property
    def length(self) -> int:
        return len(self.old)

    @property
    def A(self) -> float:
        """The row's advantage: the mean over its steps."""
        return sum(self.advantage) / len(self.advantage)


@st.composite
def cases(
    draw: Any, *, per_step: bool = False, functionals: Sequence[str] = (), far: float = 20.0, rows: int = 7
) -> list[Row]:
    """Rows of an update. ``far``: largest |log ratio|, to the old policy and to the sampler.

    ``functionals`` get values in (0, 1). About a third of the cases are on-policy (old equals current exactly).
    """
    made = []
    bf16 = draw(st.booleans())
    on_policy = draw(st.integers(0, 2)) == 0
    log_ratio = st.one_of(
        st.sampled_from([0.0, -far, far]), st.floats(-0.5, 0.5), st.floats(-1e-4, 1e-4), st.floats(-far, far)
    )
    scale = draw(st.sampled_from([1.0, 1.0, 1e-6, 1e6]))
    advantage = st.one_of(st.sampled_from([0.0, 1.0, -1.0]), st.floats(-3, 3))
    group = 0
    for index in range(draw(st.integers(1, rows))):
        group += index > 0 and draw(st.integers(0, 2)) == 0
        length = draw(st.sampled_from([1, 1, 2, 3, 6]))
        lp = [_rounded(-draw(st.floats(1e-3, 8.0)), bf16) for _ in range(length)]
        old = [each if on_policy else _rounded(each - draw(log_ratio), bf16) for each in lp]
        mu = [_rounded(each - draw(log_ratio), bf16) for each in old]
        constant = draw(advantage) * scale
        values = [draw(advantage) * scale if per_step else constant for _ in range(length)]
        extra = {name: [draw(st.floats(0.0, 1.0)) for _ in range(length)] for name in functionals}
        made.append(
            Row(group, lp, old, mu, values, extra, reward=draw(st.floats(-1, 1)), version=draw(st.integers(0, 3)))
        )
    return made


def _rounded(value: float, bf16: bool) -> float:
    return float(torch.tensor(value, dtype=torch.bfloat16)) if bf16 else value


def inputs_of(
    rows: Sequence[Row], *, dtype: torch.dtype = torch.float64, version: int = 4, old_version: int = 3
) -> LossInputs:
    """The rows as one micro-batch; ``log_probs_S`` and the functionals require gradient."""

    def flat(name: str, kind: torch.dtype = dtype) -> Tensor:
        return torch.tensor([each for row in rows for each in getattr(row, name)], dtype=kind)

    lengths = torch.tensor([row.length for row in rows])
    names = rows[0].functionals if rows else {}
    return LossInputs(
        log_probs_S=flat("lp").requires_grad_(),
        old_log_probs_S=flat("old"),
        behaviour_log_probs_S=flat("mu"),
        advantages_S=flat("advantage"),
        row_S=torch.repeat_interleave(torch.arange(len(rows)), lengths),
        lengths_R=lengths,
        group_R=torch.tensor([row.group for row in rows]),
        functionals={
            name: torch.tensor([each for row in rows for each in row.functionals[name]], dtype=dtype).requires_grad_()
            for name in names
        },
        rewards_R=torch.tensor([row.reward for row in rows], dtype=dtype),
        behaviour_version_R=torch.tensor([row.version for row in rows]),
        old_version=old_version,
        version=version,
    )


Reference = Callable[[list[Row]], list[Any]]
"""From rows whose ``lp`` are scalar float64 tensors to the terms in order (a float for a term without gradient)."""


def expect_formula(
    loss: PolicyLoss,
    rows: Sequence[Row],
    reference: Reference,
    *,
    plan_S: Tensor | None = None,
    tolerance: float = 1e-10,
) -> None:
    """Hold the terms of ``loss``, and the gradient of a weighted sum of them, against ``reference``.

    Terms are compared each relative to its own size, gradients relative to the largest entry of the row's own gradient;
    everything must be finite.
    """
    inputs = replace(inputs_of(rows), plan_S=plan_S)
    terms = loss(inputs).terms
    found, wanted, gradients = _both(terms, inputs.log_probs_S, rows, reference)
    _close(found, wanted, [1] * len(wanted), tolerance, "terms")
    _close(gradients[0], gradients[1], [row.length for row in rows], tolerance, "gradient")


def _both(
    terms: Tensor, log_probs_S: Tensor, rows: Sequence[Row], reference: Reference
) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
    leaves = log_probs_S.detach().clone().double()
    scalars = [each.clone().requires_grad_() for each in leaves]
    seen, position = [], 0
    for row in rows:
        seen.append(replace(row, lp=scalars[position : position + row.length]))
        position += row.length
    wanted = [torch.as_tensor(each, dtype=torch.float64) for each in reference(seen)]
    assert len(wanted) == terms.shape[0], f"{terms.shape[0]} terms, the formula has {len(wanted)}"
    weights = [1.0 + 0.37 * (index % 5) for index in range(len(wanted))]
    total = sum(
        (weight * term for weight, term in zip(weights, wanted, strict=True)), torch.zeros((), dtype=torch.float64)
    )
    zeros = [torch.zeros((), dtype=torch.float64)] * len(scalars)
    expected = zeros
    if total.requires_grad:
        expected = [
            zero if gradient is None else gradient
            for zero, gradient in zip(zeros, torch.autograd.grad(total, scalars, allow_unused=True), strict=True)
        ]
    weighted = (terms * torch.tensor(weights, dtype=terms.dtype)).sum()
    found_gradient = torch.zeros_like(log_probs_S)
    if weighted.requires_grad:
        gradient = torch.autograd.grad(weighted, log_probs_S, allow_unused=True)[0]
        found_gradient = found_gradient if gradient is None else gradient
    found, hoped = terms.detach().double(), torch.stack([each.detach() for each in wanted])
    return found, hoped, (found_gradient.double(), torch.stack([each.detach() for each in expected]))


def _close(found: Tensor, wanted: Tensor, sizes: Sequence[int], tolerance: float, what: str) -> None:
    assert bool(torch.isfinite(found).all()), f"{what}: {found}"
    for one, other in zip(found.split(list(sizes)), wanted.split(list(sizes)), strict=True):
        size = max(float(other.abs().max()), 1e-300)
        worst = float((one - other).abs().max())
        assert worst <= tolerance * size, f"{what}: {found.tolist()} instead of {wanted.tolist()}"
