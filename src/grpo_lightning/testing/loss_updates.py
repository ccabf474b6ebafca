"""What the terms of a policy loss must do in an update: stand alone, add up, and rest on a plan that is the same for all."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import torch
from torch import Tensor

from grpo_lightning.functional.log_probs import FUNCTIONALS
from grpo_lightning.losses.base import PolicyLoss
from grpo_lightning.testing.check import Specimen, checks, expect
from grpo_lightning.testing.loss_sums import aggregations_of, numbers, planned, relative, summed_gradient
from grpo_lightning.testing.update_batch import UpdateBatch, update_batch


def _units(loss: PolicyLoss, batch: UpdateBatch) -> list[list[int]]:
    """Rows that belong together: groups for scope ``group``, else each alone."""
    if loss.scope != "group":
        return [[row] for row in range(batch.lengths_R.shape[0])]
    return [(batch.group_R == group).nonzero().squeeze(1).tolist() for group in torch.unique(batch.group_R).tolist()]


def _rows(units: Sequence[Sequence[int]]) -> list[int]:
    return list(chain.from_iterable(units))


def check_terms_stand_alone(specimen: Specimen) -> None:
    """A term does not depend on which other rows are in the micro-batch, nor on their order."""
    for spread in (1e-4, 0.3):
        batch = update_batch(spread)
        loss = specimen.make()
        plan_S = planned(loss, batch)
        whole = numbers(loss(batch.loss_inputs(plan_S=plan_S)))
        units = _units(loss, batch)
        alone = torch.cat([_terms_of(specimen, batch, rows, plan_S) for rows in units])
        turned = [row for unit in reversed(units) for row in unit]
        shuffled = _terms_of(specimen, batch, turned, plan_S)
        if loss.scope == "sequence":
            shuffled = shuffled.flip(0)
        elif loss.scope != "group":  # of which the terms are in order of groups whatever that of the rows is
            shuffled = torch.zeros_like(shuffled).index_copy(0, batch.steps_of(turned), shuffled)
        for found, how in ((alone, "alone"), (shuffled, "in another order")):
            worst = float((found - whole).abs().max()) if found.shape == whole.shape else float("inf")
            expect(
                worst <= 1e-10 * max(1.0, float(whole.abs().max())),
                f"A term of scope {loss.scope!r} is the same whatever other rows share its micro-batch",
                f"it differs by {worst:g} from the one of its rows {how}",
                "take no mean, sum or maximum over all steps: use inputs.mean_rows, or for what needs more rows "
                "scope = 'group' or scope = 'update' with a plan",
            )


def _terms_of(specimen: Specimen, batch: UpdateBatch, rows: Sequence[int], plan_S: Tensor | None) -> Tensor:
    plan = None if plan_S is None else plan_S[batch.steps_of(rows)]
    return numbers(specimen.make()(batch.select(rows).loss_inputs(plan_S=plan)))


def check_any_micro_batches(specimen: Specimen) -> None:
    """The gradient of an update is the same however its rows are split into micro-batches, under every legal aggregation."""
    for spread in (1e-4, 0.3):
        batch = update_batch(spread)
        loss = specimen.make()
        units = _units(loss, batch)
        half = len(units) // 2
        splits = {
            "a micro-batch for each": units,
            "two micro-batches": [_rows(units[:half]), _rows(units[half:])],
            "two micro-batches, in another order": [_rows(units[half:][::-1]), _rows(units[:half][::-1])],
        }
        plan_S = planned(loss, batch)
        everything = [list(range(len(batch.lengths_R)))]
        for aggregation in aggregations_of(loss):
            whole_S = summed_gradient(specimen, batch, everything, aggregation, plan_S)
            for name, parts in splits.items():
                found_S = summed_gradient(specimen, batch, parts, aggregation, plan_S)
                worst = relative(found_S, whole_S)
                expect(
                    worst <= 1e-10,
                    "Micro-batches only sum: the gradient of an update does not depend on how its rows are split",
                    f"with {name} and aggregation {aggregation.name} the gradient differs by {worst:.2g} of its size"
                    + _scaled(found_S, whole_S),
                    "divide by nothing that is counted or averaged in a micro-batch: the aggregation holds the whole update's "
                    "normaliser, and what needs the whole update goes into plan()",
                )


def _scaled(found_S: Tensor, whole_S: Tensor) -> str:
    """What a factor between two gradients says, if there is one."""
    factor = float((found_S * whole_S).sum() / (whole_S**2).sum().clamp(min=1e-300))
    if factor and relative(found_S / factor, whole_S) <= 1e-9:
        return f" (it is {factor:.4g} times as large: the terms are divided by the size of their micro-batch)"
    return ""


def check_plan_is_a_function_of_the_update(specimen: Specimen) -> None:
    """A plan is one finite number a step of the update, and the same whenever it is made."""
    loss = specimen.make()
    if loss.scope != "update":
        return
    update = update_batch().update_steps(set(loss.functionals) & FUNCTIONALS)
    first, second = loss.plan(update), loss.plan(update)
    steps = update.log_probs_S.shape[0]
    sound = tuple(first.shape) == (steps,) and not first.requires_grad and bool(torch.isfinite(first.double()).all())
    found = f"shape {tuple(first.shape)} of {first.dtype}, gradient: {first.requires_grad}"
    expect(sound, f"A plan is [{steps}] finite numbers without gradient, one a step", found, "return one number a step")
    expect(
        torch.equal(first, second),
        "A plan is a function of the update: ranks, and a resumed run, make the same one",
        "two plans of one update differ",
        "draw from update.uniform_S, which is the same for a step wherever it is computed, and keep nothing between calls",
    )


CHECKS = checks(check_terms_stand_alone, check_any_micro_batches, check_plan_is_a_function_of_the_update)
