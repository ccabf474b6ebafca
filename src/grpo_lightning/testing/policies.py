"""What every policy must do: log-probabilities. What it does before, and its weights, is in ``policy_weights``."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from grpo_lightning.policies.base import Policy
from grpo_lightning.testing import policy_weights
from grpo_lightning.testing.check import Specimen, checks, expect
from grpo_lightning.testing.global_state import unchanged_globals
from grpo_lightning.testing.scored_rows import loaded, masked, only_choice, scored_rows
from grpo_lightning.testing.untouched import expect_untouched
from grpo_lightning.types import Rollouts

CLOSE = 1e-4
"""Difference of float32 log-probabilities that are one."""
FUNCTIONALS = ("entropy", "sum_of_squares")


def _log_probs(policy: Policy, rows: Rollouts) -> Tensor:
    with torch.no_grad():
        found: Tensor = policy(rows)["log_prob"]
    return found.reshape(-1)


def _apart(left: Tensor, right: Tensor) -> float:
    return float((left - right).abs().max()) if left.shape == right.shape else float("inf")


def check_gives_a_log_prob_a_trainable_step(specimen: Specimen) -> None:
    """The forward pass gives one log-probability a trainable step: float32 or wider, finite, at most 0."""
    policy = loaded(specimen)
    rows = scored_rows(policy, specimen)
    with torch.no_grad():
        output = policy(rows)
    log_prob = output.get("log_prob", torch.zeros(0))
    wanted = (rows.actions.values.shape[0],)
    wide = log_prob.dtype in (torch.float32, torch.float64)
    shape = tuple(log_prob.shape) == wanted
    size = bool(torch.isfinite(log_prob).all()) and bool((log_prob <= 1e-5).all())
    expect(
        wide and shape and size,
        f"forward() gives 'log_prob' of shape {wanted}, in float32 or wider, finite and not above 0",
        f"shape {tuple(log_prob.shape)} of {log_prob.dtype}, up to {float(log_prob.max()) if log_prob.numel() else 0:g}",
        "take log_softmax in float32, and gather what each trainable step chose, rows in order "
        "(functional.log_probs.chunked_functionals)",
    )


def check_gives_only_what_was_asked(specimen: Specimen) -> None:
    """The forward pass gives ``log_prob`` and the functionals that were asked for, each one number a step, and no logits."""
    policy = loaded(specimen)
    rows = scored_rows(policy, specimen)
    steps = rows.actions.values.shape[0]
    with torch.no_grad():
        output = policy(rows, FUNCTIONALS[:1], observed=FUNCTIONALS[1:])
    names = {"log_prob", *FUNCTIONALS}
    expect(
        set(output) == names,
        f"forward() returns what was asked for and nothing else: {', '.join(sorted(names))}",
        ", ".join(sorted(output)),
        "compute the functionals named in functionals and observed, and return no logits: all of a batch would exist at once",
    )
    large = [name for name, values in output.items() if values.numel() != steps]
    expect(not large, "A functional is one number a step", f"{large} of another size", "reduce over the vocabulary")


def check_gradient_reaches_its_parameters(specimen: Specimen) -> None:
    """Log-probabilities and functionals carry a gradient to the parameters; observed functionals carry none."""
    policy = loaded(specimen)
    rows = scored_rows(policy, specimen)
    output = policy(rows, FUNCTIONALS[:1], observed=FUNCTIONALS[1:])
    for name in ("log_prob", FUNCTIONALS[0]):
        policy.zero_grad(set_to_none=True)
        size = 0.0
        if output[name].requires_grad:
            output[name].sum().backward(retain_graph=True)
            size = sum(float(each.grad.abs().sum()) for each in policy.parameters() if each.grad is not None)
        expect(
            size > 0,
            f"The gradient of {name!r} reaches the parameters",
            "none, or one that is 0 everywhere",
            "run the forward pass with gradient, and load weights that require one",
        )
    expect(
        not output[FUNCTIONALS[1]].requires_grad,
        "What is only observed carries no gradient: its graph would be kept for nothing",
        "a gradient",
        "compute observed functionals under torch.no_grad()",
    )


def check_train_and_eval_agree(specimen: Specimen) -> None:
    """Train and eval mode compute the same: every dropout is 0."""
    policy = loaded(specimen)
    rows = scored_rows(policy, specimen)
    policy.train()
    first, again = _log_probs(policy, rows), _log_probs(policy, rows)
    policy.eval()
    worst = max(_apart(first, _log_probs(policy, rows)), _apart(first, again))
    expect(
        worst == 0.0,
        "The policy that is scored is the one that sampled: train and eval mode compute the same, every time",
        f"log-probabilities that differ by {worst:.3g}",
        "set every dropout probability to 0 in load(), in attention and adapters too (see policies/dropout.py)",
    )


def check_masked_steps_take_no_part(specimen: Specimen) -> None:
    """Steps that the policy did not write are left out, and change nothing for the others."""
    policy = loaded(specimen)
    rows = scored_rows(policy, specimen)
    hidden = [1, 4, 5]
    part = masked(rows, hidden)
    found = _log_probs(policy, part)
    wanted = _log_probs(policy, rows)[part.trainable_S]
    worst = _apart(found, wanted)
    expect(
        worst <= CLOSE,
        "forward() gives values of trainable steps only; the environment's steps are read, and neither scored nor trained",
        f"{found.shape[0]} values for {wanted.shape[0]} trainable steps"
        if worst == float("inf")
        else f"a step that differs by {worst:.3g} where another is masked",
        "index by rows.trainable_S after the pass over whole sequences",
    )


def check_rows_do_not_mix(specimen: Specimen) -> None:
    """A row's log-probabilities do not depend on the other rows, nor on its place."""
    policy = loaded(specimen)
    rows = scored_rows(policy, specimen)
    whole = _log_probs(policy, rows)
    count = len(rows)
    alone = torch.cat([_log_probs(policy, rows.select(torch.tensor([row]))) for row in range(count)])
    order = torch.tensor([2, 0, 3, 1])
    moved = _log_probs(policy, rows.select(order))
    for found, wanted, how in (
        (alone, whole, "alone"),
        (moved, whole[rows.actions.positions(order)], "in another order"),
    ):
        worst = _apart(found, wanted)
        expect(
            worst <= CLOSE,
            "A row is scored the same however rows are padded, packed and ordered",
            f"log-probabilities that differ by {worst:.3g} where the row is {how}",
            "keep padding out of attention and positions, and rows of a pack apart",
        )


def check_temperatures_and_supports_count(specimen: Specimen) -> None:
    """Log-probabilities are those at the row's own temperature, on each step's own support."""
    policy = loaded(specimen)
    rows = scored_rows(policy, specimen)
    alone = _log_probs(policy, only_choice(rows))
    expect(
        bool((alone.abs() <= 1e-6).all()),
        "A step that could choose only one thing chose it with probability 1",
        f"log-probabilities down to {float(alone.min()):g} on supports of one id",
        "restrict the distribution to rows.support before it is normalised (functional.log_probs.restrict)",
    )
    first = rows.actions.positions(torch.tensor([0]))
    other = [1.0, 2.0, 2.0, 2.0]
    plain = _log_probs(policy, replace(rows, temperature_R=torch.ones(4)))
    warm = _log_probs(policy, replace(rows, temperature_R=torch.tensor(other)))
    rest = torch.ones_like(plain, dtype=torch.bool)
    rest[first] = False
    changed, kept = _apart(plain[rest], warm[rest]), _apart(plain[first], warm[first])
    expect(
        changed > 1e-3 and kept <= CLOSE,
        "Logits are divided by the temperature of their own row, as when it was sampled",
        f"a difference of {changed:.3g} between temperatures 1 and 2, and of {kept:.3g} in a row whose temperature stayed",
        "divide by rows.temperature_R[rows.row_S] before the softmax",
    )


def check_leaves_inputs_alone(specimen: Specimen) -> None:
    """A forward pass changes none of the tensors of its rows."""
    policy = loaded(specimen)
    rows = scored_rows(policy, specimen)
    expect_untouched(lambda: policy(rows, FUNCTIONALS), rows, "A policy")


def check_leaves_the_process_alone(specimen: Specimen) -> None:
    """A forward pass leaves global random generators, grad mode and default dtype as they are."""
    policy = loaded(specimen)
    rows = scored_rows(policy, specimen)
    with unchanged_globals("a forward pass"):
        policy(rows, FUNCTIONALS)


CHECKS = (
    *policy_weights.CHECKS,
    *checks(
        check_gives_a_log_prob_a_trainable_step,
        check_gives_only_what_was_asked,
        check_gradient_reaches_its_parameters,
        check_train_and_eval_agree,
        check_masked_steps_take_no_part,
        check_rows_do_not_mix,
        check_temperatures_and_supports_count,
        check_leaves_inputs_alone,
        check_leaves_the_process_alone,
    ),
)
