"""Off-policy corrections against their formula, written over rows of plain floats."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from grpo_lightning.corrections.base import Correction, CorrectionInputs
from helpers.adversarial import Row, inputs_of

Reference = Callable[[list[Row]], list[float]]
"""From the rows of an update to the weight of every step, in order."""


def correction_inputs(rows: Sequence[Row], dtype: torch.dtype = torch.float64) -> CorrectionInputs:
    """The rows as a correction sees them."""
    seen = inputs_of(rows, dtype=dtype)
    return CorrectionInputs(
        old_log_probs_S=seen.old_log_probs_S,
        behaviour_log_probs_S=seen.behaviour_log_probs_S,
        row_S=seen.row_S,
        lengths_R=seen.lengths_R,
        log_probs_S=seen.log_probs_S.detach(),
        advantages_S=seen.advantages_S,
        functionals={name: values.detach() for name, values in seen.functionals.items()},
    )


def expect_weights(correction: Correction, rows: Sequence[Row], reference: Reference) -> None:
    """Hold every weight against ``reference``, relative to its own size; weights carry no gradient."""
    weights = correction(correction_inputs(rows))
    wanted = reference(list(rows))
    assert not weights.requires_grad
    assert weights.dtype == torch.float64
    assert len(wanted) == weights.shape[0]
    for found, hoped in zip(weights.tolist(), wanted, strict=True):
        assert 0.0 <= found < float("inf")
        assert abs(found - hoped) <= 1e-10 * abs(hoped), f"{weights.tolist()} instead of {wanted}"


def ratio_rows(ratios: Sequence[Sequence[float]], advantages: Sequence[float] | None = None) -> CorrectionInputs:
    """Rows of steps whose ``pi_old / mu`` is as given; the current policy is the old one, advantages are one a row."""
    flat = torch.tensor([ratio for row in ratios for ratio in row], dtype=torch.float64).log()
    lengths = torch.tensor([len(row) for row in ratios])
    sampler = torch.linspace(-3, -1, len(flat), dtype=torch.float64)
    own = torch.tensor(advantages if advantages is not None else [1.0] * len(ratios), dtype=torch.float64)
    return CorrectionInputs(
        old_log_probs_S=sampler + flat,
        behaviour_log_probs_S=sampler,
        row_S=torch.repeat_interleave(torch.arange(len(ratios)), lengths),
        lengths_R=lengths,
        log_probs_S=sampler + flat,
        advantages_S=own.repeat_interleave(lengths),
    )


def far_apart(log_ratio: float, advantage: float = -1.0, dtype: torch.dtype = torch.float32) -> CorrectionInputs:
    """Two rows, of two steps and of one, with that ``log(pi_old / mu)``; the current policy is the old one."""
    old = torch.full((3,), log_ratio, dtype=dtype)
    advantages = torch.full((3,), advantage, dtype=dtype)
    return CorrectionInputs(
        old, torch.zeros(3, dtype=dtype), torch.tensor([0, 0, 1]), torch.tensor([2, 1]), old, advantages
    )


def no_steps() -> CorrectionInputs:
    """A rank without rows."""
    empty = torch.zeros(0)
    return CorrectionInputs(empty, empty, empty.long(), empty.long(), empty, empty)
