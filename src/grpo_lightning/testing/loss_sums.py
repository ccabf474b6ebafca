"""The gradient of an update whose rows are split into micro-batches, from the terms of a loss and an aggregation."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from grpo_lightning.aggregations.base import Aggregation, UpdateRows
from grpo_lightning.functional.groups import Groups
from grpo_lightning.functional.log_probs import FUNCTIONALS
from grpo_lightning.losses.base import LossInputs, LossTerms, PolicyLoss
from grpo_lightning.registry import registry
from grpo_lightning.testing.check import Specimen
from grpo_lightning.testing.update_batch import UpdateBatch


def numbers(result: LossTerms) -> Tensor:
    """[number of terms] float64, whatever shape and type the terms have, without gradient."""
    return result.terms.detach().double().reshape(-1)


def planned(loss: PolicyLoss, batch: UpdateBatch) -> Tensor | None:
    """[S]: the plan of a loss of scope ``update``, made over the whole batch; ``None`` for any other."""
    return loss.plan(batch.update_steps(FUNCTIONALS)) if loss.scope == "update" else None


def gradient_of(value: Tensor, leaf: Tensor) -> Tensor:
    """Gradient of a scalar by ``leaf``; zeros where it does not reach it."""
    if not value.requires_grad:
        return torch.zeros_like(leaf)
    found = torch.autograd.grad(value, leaf, allow_unused=True, retain_graph=True)[0]
    return torch.zeros_like(leaf) if found is None else found


def relative(found: Tensor, wanted: Tensor) -> float:
    """L2 norm of the difference, relative to that of ``wanted``; 0 where both are 0."""
    size = float(wanted.norm())
    return float((found - wanted).norm()) / size if size else float(found.norm())


def aggregations_of(loss: PolicyLoss) -> list[Aggregation]:
    """The built-in aggregations that are legal with a loss, or whatever legal one there is."""
    entries = registry().entries["aggregation"].values()
    legal = [entry for entry in entries if loss.aggregations is None or entry.name in loss.aggregations]
    own = [entry for entry in legal if entry.distribution == "grpo-lightning"]
    return [Specimen.of(entry.load()).make() for entry in own or legal]


def summed_gradient(
    specimen: Specimen,
    batch: UpdateBatch,
    parts: Sequence[Sequence[int]],
    aggregation: Aggregation,
    plan_S: Tensor | None,
) -> Tensor:
    """[S]: gradient of ``sum_i w_i sum_t term_it`` by the steps of the batch, in its order.

    Args:
        specimen: The loss; each micro-batch is given to a new one.
        batch: The update.
        parts: Rows of each micro-batch.
        aggregation: What the weights come from, those of the whole update.
        plan_S: [S] what the loss planned.
    """
    weights_R = aggregation.step_weights(UpdateRows(batch.lengths_R, batch.group_R))
    gradient_S = torch.zeros_like(batch.log_probs_S)
    for rows in parts:
        steps = batch.steps_of(rows)
        inputs = batch.select(rows).loss_inputs(plan_S=None if plan_S is None else plan_S[steps])
        loss = specimen.make()
        total = _weighted(loss(inputs).terms.reshape(-1), loss.scope, inputs, weights_R[torch.tensor(list(rows))])
        gradient_S[steps] = gradient_of(total, inputs.log_probs_S)
    return gradient_S


def _weighted(terms: Tensor, scope: str, inputs: LossInputs, weights_R: Tensor) -> Tensor:
    if scope == "sequence":
        return (terms * weights_R * inputs.lengths_R).sum()
    if scope == "group":
        return (terms * Groups.of(inputs.group_R).sum(weights_R * inputs.lengths_R)).sum()
    return (terms * weights_R[inputs.row_S]).sum()
