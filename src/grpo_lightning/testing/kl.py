"""What every KL estimator must do."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from grpo_lightning.kl.base import KLInputs
from grpo_lightning.testing.check import Specimen, checks, expect
from grpo_lightning.testing.global_state import unchanged_globals
from grpo_lightning.testing.loss_sums import gradient_of
from grpo_lightning.testing.untouched import expect_untouched
from grpo_lightning.testing.update_batch import extreme_batch, update_batch

DTYPES = (torch.float32, torch.float64)


def _leaves(inputs: KLInputs) -> list[Tensor]:
    return [inputs.log_probs_S] if inputs.exact_kl_S is None else [inputs.log_probs_S, inputs.exact_kl_S]


def _slopes(values: Tensor, inputs: KLInputs) -> Tensor:
    """[S]: gradient of the summed values, by whatever carries one."""
    return torch.stack([gradient_of(values.sum(), leaf) for leaf in _leaves(inputs)]).sum(0)


def _numbers(values: Tensor) -> Tensor:
    return values.detach().double().reshape(-1)


def check_gives_one_value_a_step(specimen: Specimen) -> None:
    """An estimator gives one value a step."""
    for rows in (list(range(8)), [4]):
        inputs = update_batch().select(rows).kl_inputs()
        values = specimen.make()(inputs)
        wanted = tuple(inputs.log_probs_S.shape)
        expect(
            tuple(values.shape) == wanted,
            f"A KL estimator gives one value a step: shape {wanted}",
            f"shape {tuple(values.shape)}",
            "neither add nor average: the aggregation weighs steps",
        )


def check_keeps_dtype(specimen: Specimen) -> None:
    """Values have the type of the log-probabilities."""
    for dtype in DTYPES:
        values = specimen.make()(update_batch().kl_inputs(dtype))
        expect(
            values.dtype == dtype,
            "Values have the type of inputs.log_probs_S",
            f"{values.dtype} for log-probabilities of {dtype}",
            "end with .to(inputs.log_probs_S.dtype)",
        )


def check_zero_where_policies_agree(specimen: Specimen) -> None:
    """The value is exactly 0 where policy and reference agree, with a finite gradient."""
    for dtype in DTYPES:
        inputs = update_batch().kl_inputs(dtype)
        same = inputs.log_probs_S.detach().clone()
        zero = torch.zeros_like(same).requires_grad_()
        inputs = replace(inputs, reference_log_probs_S=same, exact_kl_S=zero)
        values = specimen.make()(inputs)
        worst = float(_numbers(values).abs().max())
        slopes = _slopes(values, inputs)
        expect(
            worst == 0.0 and bool(torch.isfinite(slopes).all()),
            "A policy is at distance 0 from itself: exactly 0 where log_probs_S equals reference_log_probs_S, gradient finite",
            f"up to {worst:g}" if worst else f"a gradient of {slopes[~torch.isfinite(slopes)][:1].tolist()}",
            "compute from the difference of the log-probabilities, add no constant, and take no root or quotient of it",
        )


def check_finite_far_from_the_reference(specimen: Specimen) -> None:
    """Values and gradients are finite for log-ratios up to 500."""
    for dtype in DTYPES:
        batch = extreme_batch()
        inputs = batch.kl_inputs(dtype)
        values = specimen.make()(inputs)
        slopes = _slopes(values, inputs)
        bad = (~torch.isfinite(_numbers(values)) | ~torch.isfinite(slopes)).nonzero().squeeze(1)
        step = int(bad[0]) if bad.numel() else 0
        d = float(batch.log_probs_S[step] - batch.behaviour_log_probs_S[step])
        expect(
            not bad.numel(),
            "Values and gradients are finite however far the policy has gone from its reference",
            f"value {_numbers(values)[step]:g}, gradient {slopes[step]:g} at log pi/pi_ref = {d:g} in {dtype}",
            "hold what is exponentiated below overflow (clamp it before the exponential), and keep the gradient finite too",
        )


def check_has_a_gradient(specimen: Specimen) -> None:
    """The gradient of the values reaches the policy."""
    inputs = update_batch(0.1).kl_inputs()
    reached = bool(_slopes(specimen.make()(inputs), inputs).any())
    expect(
        reached,
        "Values carry the gradient of inputs.log_probs_S, or of inputs.exact_kl_S: in the loss they would do nothing else",
        "no gradient, or one that is 0 everywhere",
        "detach nothing but weights",
    )


def check_goes_step_by_step(specimen: Specimen) -> None:
    """A step's value and gradient do not depend on the other steps."""
    inputs = update_batch().kl_inputs()
    values = specimen.make()(inputs)
    whole = torch.stack([_numbers(values), _slopes(values, inputs)])
    parts = []
    for step in range(inputs.log_probs_S.shape[0]):
        chosen = {
            "log_probs_S": inputs.log_probs_S.detach()[step : step + 1].requires_grad_(),
            "reference_log_probs_S": inputs.reference_log_probs_S[step : step + 1],
            "old_log_probs_S": inputs.old_log_probs_S[step : step + 1],
        }
        exact = None if inputs.exact_kl_S is None else inputs.exact_kl_S.detach()[step : step + 1].requires_grad_()
        one = KLInputs(**chosen, exact_kl_S=exact)
        value = specimen.make()(one)
        parts.append(torch.stack([_numbers(value).sum().reshape(1), _slopes(value, one)]))
    worst = float((torch.cat(parts, dim=1) - whole).abs().max()) if whole.shape[1] == len(parts) else float("inf")
    expect(
        worst <= 1e-12 * max(1.0, float(whole.abs().max())),
        "A step's value is a function of that step: micro-batches cut an update anywhere between rows",
        f"a value or gradient that differs by {worst:g} where the step is alone",
        "take no mean, sum or maximum over steps",
    )


def check_only_declared_functionals(specimen: Specimen) -> None:
    """An estimator reads the exact divergence only if it declares it."""
    estimator = specimen.make()
    unknown = sorted(set(estimator.functionals) - {"exact_kl"})
    must = "An estimator may declare the functional exact_kl, and no other"
    expect(not unknown, must, ", ".join(unknown), "set functionals = frozenset(), or frozenset({'exact_kl'})")
    inputs = update_batch().kl_inputs(exact="exact_kl" in estimator.functionals)
    failure = ""
    try:
        estimator(inputs)
    except (TypeError, AttributeError, ValueError, AssertionError) as error:
        failure = f"{type(error).__name__}: {error}"
    expect(
        not failure,
        "inputs.exact_kl_S is there only for estimators that declare it, since it costs a pass of the reference's head",
        f"without it, {failure}",
        "set functionals = frozenset({'exact_kl'}), or do without",
    )


def check_repeats_itself(specimen: Specimen) -> None:
    """An estimator called again with the same inputs gives the same values."""
    estimator = specimen.make()
    first, second, third = (_numbers(estimator(update_batch().kl_inputs())) for _ in range(3))
    expect(
        torch.equal(first, second) and torch.equal(second, third),
        "A KL estimator is a function of its inputs",
        "values that change from one call to the next",
        "keep nothing between calls; a coefficient that adapts is the KL term's target",
    )


def check_leaves_inputs_alone(specimen: Specimen) -> None:
    """An estimator changes none of its inputs."""
    estimator, inputs = specimen.make(), update_batch().kl_inputs()
    expect_untouched(lambda: estimator(inputs), inputs, "A KL estimator")


def check_leaves_the_process_alone(specimen: Specimen) -> None:
    """An estimator leaves global random generators, grad mode and default dtype as they are."""
    with unchanged_globals("calling the estimator"):
        specimen.make()(update_batch().kl_inputs())


CHECKS = checks(
    check_gives_one_value_a_step,
    check_keeps_dtype,
    check_zero_where_policies_agree,
    check_finite_far_from_the_reference,
    check_has_a_gradient,
    check_goes_step_by_step,
    check_only_declared_functionals,
    check_repeats_itself,
    check_leaves_inputs_alone,
    check_leaves_the_process_alone,
)
