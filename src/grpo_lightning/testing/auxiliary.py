"""What every auxiliary loss must do."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from grpo_lightning.testing.check import Specimen, checks, expect
from grpo_lightning.testing.difference import difference
from grpo_lightning.testing.global_state import unchanged_globals
from grpo_lightning.testing.loss_sums import gradient_of
from grpo_lightning.testing.row_faults import row_faults
from grpo_lightning.testing.tiny_model import prompts, shared_tiny_policy, tiny_policy
from grpo_lightning.testing.untouched import expect_untouched
from grpo_lightning.types import Rollouts

LOG_PROBS = (-0.01, -0.7, -3.0, -1.3, -9.0)


def _rows(specimen: Specimen, count: int = 3) -> Rollouts:
    rows: Rollouts = specimen.make().rows(shared_tiny_policy(), prompts(specimen, count))
    return rows


def _log_probs(dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.tensor(LOG_PROBS, dtype=dtype).requires_grad_()


def check_makes_legal_rows(specimen: Specimen) -> None:
    """The rows that it makes are rows that a policy can train on."""
    faults = row_faults(_rows(specimen), shared_tiny_policy())
    expect(
        not faults,
        "rows() returns rows that the policy can score, each with a step to learn from",
        "; ".join(faults),
        "encode with policy.encode and policy.encode_target, and lay sequences end to end with Ragged.from_list; see the "
        "fields of grpo_lightning.types.Rollouts",
    )


def check_rows_are_the_same_again(specimen: Specimen) -> None:
    """Equal data gives equal rows."""
    loss, policy = specimen.make(), shared_tiny_policy()
    first, second = (loss.rows(policy, prompts(specimen)).state_dict() for _ in range(2))
    found = difference(first, second, "rows")
    expect(
        found is None,
        "Rows are a function of the policy and the data: a resumed run makes them again",
        str(found),
        "keep nothing between calls and draw nothing at random",
    )


def check_normaliser_counts_rows(specimen: Specimen) -> None:
    """The normaliser is a positive number, and adds up over the ranks that rows are spread over."""
    loss = specimen.make()
    rows = _rows(specimen)
    total: Any = loss.normaliser(rows)
    must = "normaliser() returns a positive number for rows with steps"
    good = isinstance(total, int | float) and math.isfinite(total) and total > 0
    expect(good, must, repr(total), "count steps or rows, and return a float")
    parts = sum(loss.normaliser(rows.select(torch.tensor([row]))) for row in range(len(rows)))
    expect(
        abs(parts - total) <= 1e-9 * abs(total),
        "Normalisers of the ranks are added up, so that of all rows is the sum of those of its parts",
        f"{total:g} for all rows and {parts:g} for each alone, added up",
        "return a count of rows or steps, and no mean",
    )


def check_gives_one_term_a_step(specimen: Specimen) -> None:
    """It gives one finite term a step, of the type of the log-probabilities."""
    for dtype in (torch.float32, torch.float64):
        log_probs_S = _log_probs(dtype)
        terms = specimen.make().terms(log_probs_S)
        wanted = tuple(log_probs_S.shape)
        expect(
            tuple(terms.shape) == wanted and terms.dtype == dtype and bool(torch.isfinite(terms).all()),
            f"terms() returns one finite number a step: shape {wanted} of {dtype}",
            f"shape {tuple(terms.shape)} of {terms.dtype}, {terms.detach().flatten()[:5].tolist()}",
            "neither add nor average: micro-batches sum the terms, and the normaliser divides",
        )


def check_goes_step_by_step(specimen: Specimen) -> None:
    """A step's term and gradient do not depend on the other steps."""
    whole_S = _log_probs()
    terms_S = specimen.make().terms(whole_S).reshape(-1)
    wanted = torch.stack([terms_S.detach(), gradient_of(terms_S.sum(), whole_S)])
    parts = []
    for value in LOG_PROBS:
        one = torch.tensor([value], dtype=torch.float64).requires_grad_()
        term = specimen.make().terms(one).reshape(-1)
        parts.append(torch.stack([term.detach(), gradient_of(term.sum(), one)]))
    worst = float((torch.cat(parts, dim=1) - wanted).abs().max())
    expect(
        worst <= 1e-12 * max(1.0, float(wanted.abs().max())),
        "A term is a function of its step: the gradient does not depend on how rows are split into micro-batches",
        f"a term or gradient that differs by {worst:g} where the step is alone",
        "take no mean, sum or maximum over steps",
    )


def check_trains_the_policy(specimen: Specimen) -> None:
    """The gradient of its loss reaches the policy's parameters and is finite."""
    policy, loss = tiny_policy(), specimen.make()
    rows = loss.rows(policy, prompts(specimen))
    value = loss.terms(policy(rows)["log_prob"]).sum() / loss.normaliser(rows)
    gradients: list[Tensor] = []
    if value.requires_grad:
        value.backward()
        gradients = [each.grad for each in policy.parameters() if each.grad is not None]
    finite = all(bool(torch.isfinite(each).all()) for each in gradients)
    size = sum(float(each.abs().sum()) for each in gradients)
    expect(
        finite and size > 0,
        "The gradient of terms(log_probs).sum() / normaliser reaches the policy, and is finite",
        "a gradient that is not finite" if not finite else "none, or one that is 0 everywhere",
        "keep log_probs_S in the graph: detach only weights",
    )


def check_leaves_inputs_alone(specimen: Specimen) -> None:
    """It changes none of its inputs."""
    loss = specimen.make()
    log_probs_S = _log_probs().detach()
    expect_untouched(lambda: loss.terms(log_probs_S), log_probs_S, "terms()")
    rows = _rows(specimen)
    expect_untouched(lambda: loss.normaliser(rows), rows, "normaliser()")


def check_leaves_the_process_alone(specimen: Specimen) -> None:
    """It leaves global random generators, grad mode and default dtype as they are."""
    loss, policy = specimen.make(), shared_tiny_policy()
    with unchanged_globals("making rows and terms"):
        loss.normaliser(loss.rows(policy, prompts(specimen)))
        loss.terms(_log_probs())


CHECKS = checks(
    check_makes_legal_rows,
    check_rows_are_the_same_again,
    check_normaliser_counts_rows,
    check_gives_one_term_a_step,
    check_goes_step_by_step,
    check_trains_the_policy,
    check_leaves_inputs_alone,
    check_leaves_the_process_alone,
)
