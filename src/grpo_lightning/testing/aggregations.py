"""What every aggregation must do."""

from __future__ import annotations

import torch
from torch import Tensor

from grpo_lightning.aggregations.base import UpdateRows
from grpo_lightning.testing.check import Specimen, checks, expect
from grpo_lightning.testing.global_state import unchanged_globals
from grpo_lightning.testing.untouched import expect_untouched

UPDATES: dict[str, tuple[list[int], list[int]]] = {
    "uneven groups": ([3, 1, 5, 2, 1, 4, 2], [3, 8, 3, 11, 8, 3, 20]),
    "a single row": ([4], [7]),
    "rows of one step": ([1, 1, 1], [0, 0, 5]),
    "a long row beside a short one": ([1, 100_000], [2, 2]),
    "many rows": ([1 + row % 9 for row in range(400)], [row // 8 for row in range(400)]),
}
"""Lengths and groups of the rows of some updates, by what they are."""


def _rows(name: str = "uneven groups") -> UpdateRows:
    lengths, groups = UPDATES[name]
    return UpdateRows(torch.tensor(lengths), torch.tensor(groups))


def _weights(specimen: Specimen, rows: UpdateRows) -> Tensor:
    """[R] float64: the weights that a new aggregation gives."""
    found: Tensor = specimen.make().step_weights(rows)
    return found.detach().double()


def _differ(left: Tensor, right: Tensor) -> bool:
    return left.shape != right.shape or not torch.allclose(left, right, rtol=1e-12, atol=0.0, equal_nan=True)


def check_gives_one_weight_a_row(specimen: Specimen) -> None:
    """An aggregation gives one float64 weight a row, without gradient."""
    for name in UPDATES:
        rows = _rows(name)
        weights = specimen.make().step_weights(rows)
        wanted = tuple(rows.lengths_R.shape)
        expect(
            tuple(weights.shape) == wanted and weights.dtype == torch.float64 and not weights.requires_grad,
            f"step_weights returns {list(wanted)} float64, one weight a row, without gradient",
            f"shape {tuple(weights.shape)} of {weights.dtype}" + (" with gradient" if weights.requires_grad else ""),
            "compute from rows.lengths_R.to(torch.float64), and return one number a row",
        )


def check_weights_are_positive_and_finite(specimen: Specimen) -> None:
    """Weights are positive and finite for uneven groups, single rows, and rows of one step."""
    for name in UPDATES:
        weights_R = _weights(specimen, _rows(name))
        bad = (~torch.isfinite(weights_R) | (weights_R <= 0)).nonzero()
        expect(
            not bad.numel(),
            f"Every step of an update weighs something: weights are positive and finite ({name})",
            f"a weight of {float(weights_R.flatten()[bad[0, 0]]) if bad.numel() else 0:g}",
            "divide only by counts that are never 0; a row, or a group, of a single step is legal",
        )


def check_order_of_rows_does_not_matter(specimen: Specimen) -> None:
    """Rows in another order get the same weights."""
    rows = _rows()
    order = torch.tensor([4, 0, 6, 2, 5, 1, 3])
    weights_R = _weights(specimen, rows)
    moved_R = _weights(specimen, UpdateRows(rows.lengths_R[order], rows.group_R[order]))
    expect(
        not _differ(moved_R, weights_R[order]),
        "A row's weight does not depend on its place: ranks and packing change the order of rows",
        f"{moved_R.tolist()} for rows in another order, {weights_R[order].tolist()} for the same rows in theirs",
        "use lengths and group ordinals only, never a row's index",
    )


def check_groups_are_only_names(specimen: Specimen) -> None:
    """Group ordinals say which rows belong together, and nothing else."""
    rows = _rows()
    weights_R = _weights(specimen, rows)
    renamed = {3: 40, 8: 2, 11: 7, 20: 1000}
    names_R = torch.tensor([renamed[group] for group in rows.group_R.tolist()])
    renamed_R = _weights(specimen, UpdateRows(rows.lengths_R.clone(), names_R))
    expect(
        not _differ(renamed_R, weights_R),
        "A group's ordinal is a name: ordinals have gaps where a selector dropped groups",
        f"{renamed_R.tolist()} after groups were given other ordinals, {weights_R.tolist()} before",
        "count groups with functional.groups.Groups.of(rows.group_R), and not by their largest ordinal",
    )


def check_repeats_itself(specimen: Specimen) -> None:
    """An aggregation called again with the same rows gives the same weights."""
    aggregation = specimen.make()
    first, second, third = (aggregation.step_weights(_rows()).detach() for _ in range(3))
    expect(
        torch.equal(first, second) and torch.equal(second, third),
        "Weights are a function of lengths and groups",
        "weights that change from one call to the next",
        "keep nothing between calls and draw nothing at random",
    )


def check_leaves_inputs_alone(specimen: Specimen) -> None:
    """An aggregation changes none of its inputs."""
    aggregation, rows = specimen.make(), _rows()
    expect_untouched(lambda: aggregation.step_weights(rows), rows, "An aggregation")


def check_leaves_the_process_alone(specimen: Specimen) -> None:
    """An aggregation leaves global random generators, grad mode and default dtype as they are."""
    with unchanged_globals("asking for weights"):
        specimen.make().step_weights(_rows())


CHECKS = checks(
    check_gives_one_weight_a_row,
    check_weights_are_positive_and_finite,
    check_order_of_rows_does_not_matter,
    check_groups_are_only_names,
    check_repeats_itself,
    check_leaves_inputs_alone,
    check_leaves_the_process_alone,
)
