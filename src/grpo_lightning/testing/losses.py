"""What every policy loss must do. What holds of its whole updates is in ``loss_updates``."""

from __future__ import annotations

from typing import get_args

import torch

from grpo_lightning.functional.log_probs import FUNCTIONALS
from grpo_lightning.losses.base import LossInputs, LossTerms, Scope
from grpo_lightning.registry import registry
from grpo_lightning.testing import loss_updates
from grpo_lightning.testing.check import Specimen, checks, expect
from grpo_lightning.testing.global_state import unchanged_globals
from grpo_lightning.testing.loss_sums import gradient_of, numbers, planned
from grpo_lightning.testing.untouched import expect_untouched
from grpo_lightning.testing.update_batch import UpdateBatch, extreme_batch, update_batch

DTYPES = (torch.float32, torch.float64)


def _call(specimen: Specimen, batch: UpdateBatch, dtype: torch.dtype = torch.float64) -> tuple[LossInputs, LossTerms]:
    """The terms of a batch in one micro-batch, from a loss that has seen nothing before."""
    loss = specimen.make()
    inputs = batch.loss_inputs(dtype, plan_S=planned(loss, batch))
    return inputs, loss(inputs)


def check_declares_what_exists(specimen: Specimen) -> None:
    """Scope, functionals and aggregations that a loss declares exist."""
    loss = specimen.make()
    scopes = get_args(Scope)
    expect(loss.scope in scopes, "The scope of a loss is one of " + ", ".join(scopes), repr(loss.scope), "set scope")
    unknown = sorted(set(loss.functionals) - FUNCTIONALS)
    known = ", ".join(sorted(FUNCTIONALS))
    expect(not unknown, f"Declared functionals are among {known}", ", ".join(unknown), "take their names from there")
    if loss.aggregations is None:
        return
    names = registry().entries["aggregation"]
    strange = sorted(set(loss.aggregations) - set(names))
    expect(
        bool(loss.aggregations) and not strange,
        "Legal aggregations are names of registered ones, and there is at least one",
        f"{', '.join(strange)} is registered nowhere" if strange else "an empty set",
        f"choose from {', '.join(sorted(names))}, or set aggregations = None if all have a meaning",
    )


def check_terms_have_the_shape_of_the_scope(specimen: Specimen) -> None:
    """A loss returns one term a step, row or group, as its scope says."""
    for batch in (update_batch(), update_batch(per_step=True), update_batch().select([4])):
        inputs, result = _call(specimen, batch)
        scope = specimen.make().scope
        count = {"sequence": inputs.lengths_R.shape[0], "group": int(torch.unique(inputs.group_R).shape[0])}
        wanted = (count.get(scope, inputs.log_probs_S.shape[0]),)
        expect(
            isinstance(result, LossTerms) and tuple(result.terms.shape) == wanted,
            f"A loss of scope {scope!r} returns LossTerms with terms of shape {wanted} for {count['sequence']} rows of "
            f"{inputs.log_probs_S.shape[0]} steps",
            f"{type(result).__name__} with shape {tuple(getattr(result, 'terms', torch.zeros(0)).shape)}",
            "return one term a step for scopes step and update, one a row for sequence (inputs.sum_rows, inputs.mean_rows), "
            "one a group for group; neither add nor average them, an aggregation does",
        )


def check_keeps_dtype(specimen: Specimen) -> None:
    """Terms have the type of the log-probabilities."""
    for dtype in DTYPES:
        _, result = _call(specimen, update_batch(), dtype)
        expect(
            result.terms.dtype == dtype,
            "Terms have the type of inputs.log_probs_S",
            f"{result.terms.dtype} for log-probabilities of {dtype}",
            "end with .to(inputs.log_probs_S.dtype), and make new tensors with new_zeros or full_like of an input",
        )


def check_finite_at_extremes(specimen: Specimen) -> None:
    """Terms and gradients are finite for log-ratios up to 500 and advantages from 1e-6 to 1e6."""
    for batch in (extreme_batch(), extreme_batch(bf16=True)):
        for dtype in DTYPES:
            inputs, result = _call(specimen, batch, dtype)
            gradient_S = gradient_of(result.terms.sum(), inputs.log_probs_S)
            bad = (~torch.isfinite(gradient_S)).nonzero().squeeze(1)
            what = f"a gradient of {gradient_S[bad[0]].item() if bad.numel() else 0}"
            if not bool(torch.isfinite(result.terms).all()):
                terms = numbers(result)
                what = f"a term of {terms[~torch.isfinite(terms)][0].item()}"
            where = f" in {dtype}"
            if bad.numel():
                step = int(bad[0])
                to_old = batch.log_probs_S[step] - batch.old_log_probs_S[step]
                to_sampler = batch.log_probs_S[step] - batch.behaviour_log_probs_S[step]
                where += (
                    f", at log pi/pi_old = {to_old:g}, log pi/mu = {to_sampler:g}, A = {batch.advantages_S[step]:g}"
                )
            expect(
                not bad.numel() and bool(torch.isfinite(result.terms).all()),
                "Terms and gradients are finite wherever the policy has gone",
                what + where,
                "take ratios with grpo_lightning.losses.base.bounded_exp, which is held below overflow, and replace values by "
                "masked_fill before the exponential and not after it",
            )


def check_zero_advantage_is_silent(specimen: Specimen) -> None:
    """Where the advantage is 0 a loss has term 0 and gradient 0, unless it declares runs_silent."""
    loss = specimen.make()
    if loss.runs_silent or loss.functionals:
        return
    batch = update_batch()
    silent_R = (batch.group_R == 3) | (batch.group_R == 11)
    if loss.scope != "group":
        silent_R = silent_R | (torch.arange(len(silent_R)) % 2 == 1)
    batch = batch.with_advantages([0.0 if silent else 1.0 - 2 * (row % 2) for row, silent in enumerate(silent_R)])
    inputs, result = _call(specimen, batch)
    silent_S = silent_R[batch.row_S]
    silent_G = torch.stack([silent_R[batch.group_R == group].all() for group in torch.unique(batch.group_R)])
    units = {"sequence": silent_R, "group": silent_G}.get(loss.scope, silent_S)
    term = float(numbers(result)[units].abs().max())
    slope = float(gradient_of(result.terms.sum(), inputs.log_probs_S)[silent_S].abs().max())
    expect(
        term == 0.0 and slope == 0.0,
        f"A {loss.scope} of advantage 0 has term 0 and gradient 0: it is not even run",
        f"a term of {term:g} and a gradient of {slope:g} there",
        "multiply by the advantage, or declare runs_silent = True, so that such rows are run",
    )


def check_has_a_gradient(specimen: Specimen) -> None:
    """At the policy that sampled, a loss has a gradient."""
    inputs, result = _call(specimen, update_batch().on_policy())
    leaves = [inputs.log_probs_S, *inputs.functionals.values()]
    reached = any(bool(gradient_of(result.terms.sum(), leaf).any()) for leaf in leaves)
    expect(
        reached,
        "The gradient of the terms reaches inputs.log_probs_S, where pi = pi_old = mu and advantages are not 0",
        "none, or one that is 0 everywhere",
        "keep inputs.log_probs_S in the graph: detach only weights and masks",
    )


def check_follows_the_advantage(specimen: Specimen) -> None:
    """At the policy that sampled, descending makes good steps likelier and bad steps less likely."""
    batch = update_batch().on_policy()
    inputs, result = _call(specimen, batch)
    gradient_S = gradient_of(result.terms.sum(), inputs.log_probs_S).double()
    gain = float((-gradient_S * batch.advantages_S.sign()).sum())
    expect(
        gain >= 0,
        "Terms are minimised: a step down their gradient makes steps of positive advantage likelier, where pi = pi_old = mu",
        f"it makes them less likely (the sum of -gradient times the advantage's sign is {gain:g})",
        "turn the sign: a surrogate to be maximised, such as ratio * A, is returned as -ratio * A",
    )


def check_only_declared_functionals(specimen: Specimen) -> None:
    """The functionals that a loss declares are all that it reads."""
    loss = specimen.make()
    batch = update_batch()
    names = set(loss.functionals) & FUNCTIONALS
    missing = ""
    try:
        plan_S = loss.plan(batch.update_steps(names)) if loss.scope == "update" else None
        loss(batch.loss_inputs(plan_S=plan_S, functionals=names))
    except KeyError as error:
        missing = str(error)
    expect(
        not missing,
        "A loss reads only functionals that it declares: no others are computed",
        f"it asked for {missing} and declares {sorted(names) or 'none'}",
        f"set functionals = frozenset({{{missing}}})",
    )


def check_step_metrics_are_plain_numbers(specimen: Specimen) -> None:
    """Step metrics are one finite number a step, without gradient."""
    for batch, dtype in ((update_batch(), torch.float64), (extreme_batch(), torch.float32)):
        inputs, result = _call(specimen, batch, dtype)
        for name, values_S in result.step_metrics.items():
            faults = [
                ("a gradient", values_S.requires_grad, "add .detach()"),
                (f"shape {tuple(values_S.shape)}", values_S.shape != inputs.log_probs_S.shape, "index rows by row_S"),
                (str(values_S.dtype), not values_S.is_floating_point(), "add .to(log_probs_S.dtype)"),
                (
                    "values that are not finite",
                    not bool(torch.isfinite(values_S).all()),
                    "take ratios with bounded_exp",
                ),
            ]
            for found, wrong, mend in faults:
                must = f"Step metric {name!r} is one finite number a step, without gradient"
                expect(not wrong, must, found, mend)


def check_repeats_itself(specimen: Specimen) -> None:
    """A loss called again with the same inputs returns the same terms."""
    loss, batch = specimen.make(), update_batch()
    plan_S = planned(loss, batch)
    first, second, third = (numbers(loss(batch.loss_inputs(plan_S=plan_S))) for _ in range(3))
    expect(
        torch.equal(first, second) and torch.equal(second, third),
        "A loss is a function of its inputs: the micro-batches of an update come in any order",
        "terms that change from one call to the next",
        "keep nothing between calls; what must be known of the whole update goes into plan()",
    )


def check_leaves_inputs_alone(specimen: Specimen) -> None:
    """A loss changes none of its inputs."""
    loss, batch = specimen.make(), update_batch()
    inputs = batch.loss_inputs(plan_S=planned(loss, batch))
    expect_untouched(lambda: loss(inputs), inputs, "A loss")
    if loss.scope == "update":
        update = batch.update_steps()
        expect_untouched(lambda: loss.plan(update), update, "The plan of a loss")


def check_leaves_the_process_alone(specimen: Specimen) -> None:
    """A loss leaves global random generators, grad mode and default dtype as they are."""
    with unchanged_globals("calling the loss"):
        _call(specimen, update_batch())


CHECKS = (
    *loss_updates.CHECKS,
    *checks(
        check_declares_what_exists,
        check_terms_have_the_shape_of_the_scope,
        check_keeps_dtype,
        check_finite_at_extremes,
        check_zero_advantage_is_silent,
        check_has_a_gradient,
        check_follows_the_advantage,
        check_only_declared_functionals,
        check_step_metrics_are_plain_numbers,
        check_repeats_itself,
        check_leaves_inputs_alone,
        check_leaves_the_process_alone,
    ),
)
