"""What every off-policy correction must do."""

from __future__ import annotations

import torch
from torch import Tensor

from grpo_lightning.functional.log_probs import FUNCTIONALS
from grpo_lightning.testing.check import Specimen, checks, expect
from grpo_lightning.testing.global_state import unchanged_globals
from grpo_lightning.testing.untouched import expect_untouched
from grpo_lightning.testing.update_batch import UpdateBatch, extreme_batch, update_batch

DTYPES = (torch.float32, torch.float64)
ORDER = [5, 0, 7, 2, 6, 1, 4, 3]


def _weights(specimen: Specimen, batch: UpdateBatch, dtype: torch.dtype = torch.float64) -> Tensor:
    """[S] float64: the weights that a new correction gives."""
    found: Tensor = specimen.make()(batch.correction_inputs(dtype))
    return found.detach().double().reshape(-1)


def check_declares_what_fits_together(specimen: Specimen) -> None:
    """Level, denominator and functionals that a correction declares exist and fit together."""
    correction = specimen.make()
    choices = {"level": ("step", "sequence"), "denominator": ("original", "remaining")}
    for name, legal in choices.items():
        value = getattr(correction, name)
        expect(value in legal, f"{name} is {legal[0]!r} or {legal[1]!r}", repr(value), f"set {name} to one of them")
    unknown = sorted(set(correction.functionals) - FUNCTIONALS)
    known = ", ".join(sorted(FUNCTIONALS))
    expect(not unknown, f"Declared functionals are among {known}", ", ".join(unknown), "take their names from there")
    expect(
        correction.denominator == "original" or correction.whole_update,
        "What counts only the remaining steps sees the whole update: their number is known only then",
        "denominator = 'remaining' with whole_update = False",
        "set whole_update = True where denominator is 'remaining'",
    )


def check_gives_one_weight_a_step(specimen: Specimen) -> None:
    """A correction gives one weight a step, without gradient."""
    for rows in (list(range(8)), [4]):
        inputs = update_batch().select(rows).correction_inputs()
        weights = specimen.make()(inputs)
        wanted = tuple(inputs.old_log_probs_S.shape)
        expect(
            tuple(weights.shape) == wanted and not weights.requires_grad,
            f"A correction gives one weight a step, without gradient: shape {wanted}",
            f"shape {tuple(weights.shape)}" + (" with gradient" if weights.requires_grad else ""),
            "give a weight of a row to each of its steps: weights_R[inputs.row_S]",
        )


def check_keeps_dtype(specimen: Specimen) -> None:
    """Weights have the type of the log-probabilities."""
    for dtype in DTYPES:
        weights = specimen.make()(update_batch().correction_inputs(dtype))
        expect(
            weights.dtype == dtype,
            "Weights have the type of inputs.old_log_probs_S",
            f"{weights.dtype} for log-probabilities of {dtype}",
            "end with .to(inputs.old_log_probs_S.dtype); a mask of bools too is a weight of 0 or 1",
        )


def check_weights_are_finite_and_not_negative(specimen: Specimen) -> None:
    """Weights are finite and not negative for log-ratios up to 500."""
    for batch in (update_batch(), extreme_batch(), extreme_batch(bf16=True)):
        for dtype in DTYPES:
            weights_S = _weights(specimen, batch, dtype)
            bad = (~torch.isfinite(weights_S) | (weights_S < 0)).nonzero().squeeze(1)
            step = int(bad[0]) if bad.numel() else 0
            kappa = float(batch.old_log_probs_S[step] - batch.behaviour_log_probs_S[step])
            expect(
                not bad.numel(),
                "Weights are finite and not negative, however far sampler and trainer are apart",
                f"a weight of {weights_S[step]:g} at log pi_old/mu = {kappa:g} in {dtype}",
                "take the exponential in float64, and cap or clamp before it overflows",
            )


def check_agreeing_policies_weigh_one(specimen: Specimen) -> None:
    """Where the policy is the one that sampled, weights are 1."""
    correction = specimen.make()
    if not correction.off_policy or correction.functionals:
        return  # It looks at something else as well.
    weights_S = _weights(specimen, update_batch().on_policy())
    worst = float((weights_S - 1).abs().max())
    expect(
        worst <= 1e-12,
        "A correction changes nothing where pi = pi_old = mu: weights are 1",
        f"a weight that differs from 1 by {worst:g}",
        "scale so that a ratio of 1 gives 1; set off_policy = False if it does not weigh the policy that sampled",
    )


def check_level_sequence_weighs_rows(specimen: Specimen) -> None:
    """Of level ``sequence``, all steps of a row get the same weight."""
    if specimen.make().level != "sequence":
        return
    for batch in (update_batch(), update_batch(per_step=True)):
        weights_S, row_S = _weights(specimen, batch), batch.row_S
        first_R = torch.cat([torch.zeros(1, dtype=torch.int64), batch.lengths_R.cumsum(0)[:-1]])
        worst = float((weights_S - weights_S[first_R][row_S]).abs().max())
        expect(
            worst == 0.0,
            "A correction of level 'sequence' gives all steps of a row one weight: it multiplies the row's one term",
            f"weights in a row that differ by {worst:g}",
            "compute one weight a row and give it to the steps (weights_R[inputs.row_S]), or set level = 'step'",
        )


def check_order_of_rows_does_not_matter(specimen: Specimen) -> None:
    """Rows in another order get the same weights."""
    batch = update_batch()
    weights_S = _weights(specimen, batch)[batch.steps_of(ORDER)]
    moved_S = _weights(specimen, batch.select(ORDER))
    worst = float((moved_S - weights_S).abs().max())
    expect(
        worst <= 1e-12 * max(1.0, float(weights_S.abs().max())),
        "A step's weight does not depend on the place of its row: ranks and packing change the order",
        f"weights that differ by {worst:g} after rows changed places",
        "use no index of rows or steps",
    )


def check_rows_do_not_mix(specimen: Specimen) -> None:
    """A row's weights do not depend on other rows, unless the correction sees the whole update."""
    if specimen.make().whole_update:
        return
    batch = update_batch()
    whole_S = _weights(specimen, batch)
    alone_S = torch.cat([_weights(specimen, batch.select([row])) for row in range(len(batch.lengths_R))])
    worst = float((alone_S - whole_S).abs().max())
    expect(
        worst <= 1e-12 * max(1.0, float(whole_S.abs().max())),
        "A row's weights are the same whatever other rows share its micro-batch",
        f"weights that differ by {worst:g} where the row is alone",
        "take no mean, sum or quantile over all steps, or set whole_update = True, so that it sees all of them",
    )


def check_only_declared_functionals(specimen: Specimen) -> None:
    """The functionals that a correction declares are all that it reads."""
    correction = specimen.make()
    names = set(correction.functionals) & FUNCTIONALS
    missing = ""
    try:
        correction(update_batch().correction_inputs(functionals=names))
    except KeyError as error:
        missing = str(error)
    expect(
        not missing,
        "A correction reads only functionals that it declares: no others are computed",
        f"it asked for {missing} and declares {sorted(names) or 'none'}",
        f"set functionals = frozenset({{{missing}}})",
    )


def check_repeats_itself(specimen: Specimen) -> None:
    """A correction called again with the same inputs gives the same weights."""
    correction = specimen.make()
    first, second, third = (correction(update_batch().correction_inputs()).detach() for _ in range(3))
    expect(
        torch.equal(first, second) and torch.equal(second, third),
        "A correction is a function of its inputs",
        "weights that change from one call to the next",
        "keep nothing between calls and draw nothing at random; what needs all steps sets whole_update = True",
    )


def check_leaves_inputs_alone(specimen: Specimen) -> None:
    """A correction changes none of its inputs."""
    correction, inputs = specimen.make(), update_batch().correction_inputs()
    expect_untouched(lambda: correction(inputs), inputs, "A correction")


def check_leaves_the_process_alone(specimen: Specimen) -> None:
    """A correction leaves global random generators, grad mode and default dtype as they are."""
    with unchanged_globals("calling the correction"):
        specimen.make()(update_batch().correction_inputs())


CHECKS = checks(
    check_declares_what_fits_together,
    check_gives_one_weight_a_step,
    check_keeps_dtype,
    check_weights_are_finite_and_not_negative,
    check_agreeing_policies_weigh_one,
    check_level_sequence_weighs_rows,
    check_order_of_rows_does_not_matter,
    check_rows_do_not_mix,
    check_only_declared_functionals,
    check_repeats_itself,
    check_leaves_inputs_alone,
    check_leaves_the_process_alone,
)
