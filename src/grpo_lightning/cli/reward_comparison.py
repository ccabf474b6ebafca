"""Two lists of rewards over the same recorded completions: do they say the same?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from grpo_lightning.cli.rank_correlation import kendall, spearman
from grpo_lightning.cli.recorded_scores import RecordedScores
from grpo_lightning.cli.reward_page import aligned, number
from grpo_lightning.cli.reward_report import total_statistics


@dataclass(frozen=True)
class Agreement:
    """A rank correlation."""

    over_all: float | None
    """Over all rows that both score; ``None`` where one of them is constant."""
    within_groups: float | None
    """Mean over groups, those left out in which one of them is constant."""
    groups: int
    """Groups in that mean."""


@dataclass(frozen=True)
class Comparison:
    """What two lists of rewards have in common."""

    first: str
    second: str
    data: str
    rows: int
    """Rows that both score."""
    groups: int
    """Groups with several such rows."""
    spearman: Agreement
    kendall: Agreement
    best_changes: int
    """Groups none of whose best members by the first are among the best by the second."""
    totals: tuple[dict[str, Any], dict[str, Any]]
    """Of each, over all rows that it scores."""

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self)

    def page(self) -> str:
        """For people."""
        lines = [f"A  {self.first}", f"B  {self.second}",
                 f"{self.data}: {self.rows} rows scored by both, {self.groups} groups of several of them", ""]  # fmt: skip
        table = [["rank correlation", "all rows", "mean within groups", "groups in it"]]
        for name, each in (("Spearman", self.spearman), ("Kendall tau-b", self.kendall)):
            table.append([name, number(each.over_all), number(each.within_groups), str(each.groups)])
        lines += [*aligned(table, left={0}), ""]
        share = f" ({self.best_changes / self.groups:.0%})" if self.groups else ""
        lines += [f"groups whose best member changes: {self.best_changes} of {self.groups}{share}", ""]
        return "\n".join([*lines, *aligned(self._totals(), left={0})]) + "\n"

    def _totals(self) -> list[list[str]]:
        table = [["", "A", "B"]]
        for name, key in (("mean reward", "mean"), ("standard deviation", "std")):
            table.append([name, *(number(total[key]) for total in self.totals)])
        table.append(["rows that abstain", *(str(total["abstained"]) for total in self.totals)])
        silent = [f"{total['groups_without_signal']} of {total['groups_compared']}" for total in self.totals]
        return [*table, ["groups without signal", *silent]]


def compare(first: RecordedScores, second: RecordedScores) -> Comparison:
    """Compare two lists of rewards over the same rows.

    Args:
        first: Scores by the one.
        second: Scores of the same rows by the other.
    """
    rewards = [each.composed.rewards_R for each in (first, second)]
    rows = (torch.isfinite(rewards[0]) & torch.isfinite(rewards[1])).nonzero().squeeze(1)
    a_R, b_R, group_R = rewards[0][rows], rewards[1][rows], first.group_R[rows]
    groups = [(a_R[mask], b_R[mask]) for mask in _several(group_R)]
    return Comparison(
        first=first.setup.title,
        second=second.setup.title,
        data=first.recording.path,
        rows=len(rows),
        groups=len(groups),
        spearman=_agreement(spearman, a_R, b_R, groups),
        kendall=_agreement(kendall, a_R, b_R, groups),
        best_changes=sum(best_changes(a, b) for a, b in groups),
        totals=(total_statistics(first), total_statistics(second)),
    )


def best_changes(first_R: Tensor, second_R: Tensor) -> bool:
    """Whether no row that is best by the first (ties share that) is best by the second.

    Example:
        >>> best_changes(torch.tensor([1.0, 1.0, 0.0]), torch.tensor([0.0, 3.0, 2.0]))
        False
    """
    return not bool(((first_R == first_R.max()) & (second_R == second_R.max())).any())


def _several(group_R: Tensor) -> Iterator[Tensor]:
    """A mask of the rows of each group that has several."""
    for group in torch.unique(group_R):
        mask = group_R == group
        if int(mask.sum()) > 1:
            yield mask


def _agreement(
    measure: Callable[[Tensor, Tensor], float | None], a_R: Tensor, b_R: Tensor, groups: list[tuple[Tensor, Tensor]]
) -> Agreement:
    found = [value for value in (measure(a, b) for a, b in groups) if value is not None]
    return Agreement(measure(a_R, b_R), sum(found) / len(found) if found else None, len(found))
