"""How much better the best of a group is than the second: the best reward with and without each row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.advantages.base import Advantage
from grpo_lightning.errors import require, require_range
from grpo_lightning.formula import Formula, latex_number, number
from grpo_lightning.functional.groups import Groups
from grpo_lightning.types import RolloutTable


class MaxMinusSecond(Advantage):
    """Leave-one-out maximum, ``A_i = max_{j in g} r_j - max_{j in g, j != i} r_j``: what the group's best owes to row i.

    Only the one best row of a group gets a value, the distance to the second best, in units of reward; all others get 0.
    If the best and the second differ by at most ``4 * epsilon * max |r|`` of the group, ``epsilon`` of the type the
    rewards arrived in, they tie and the whole group gets 0. A sum over ``n`` rows of ``A_i`` times the gradient of their
    log-probability is an unbiased gradient of the expected best of ``n``. With ``scale="group"`` it is divided by the
    group's standard deviation plus ``eps``, which has no unit. Adding a constant to a group's rewards changes nothing. A
    group of one gets 0.

    Source: Tang et al., arXiv 2503.19595, the leave-one-out control variate of the k-sample objective, for pass@k and the
    maximum. Their objective takes as many samples as the group has.

    Args:
        scale: ``none``, or ``group`` to divide by the group's standard deviation.
        ddof: With ``scale="group"``, taken from the group's size in the standard deviation: 1 or 0.
        eps: With ``scale="group"``, added to the standard deviation; not negative.

    Example:
        >>> from grpo_lightning.advantages.max_minus_second import MaxMinusSecond
        >>> from grpo_lightning.types import RolloutTable
        >>> MaxMinusSecond()(RolloutTable.of([0.0, 1.0, 0.25], groups=[0, 0, 0])).tolist()
        [0.0, 0.75, 0.0]
    """

    name = "max_minus_second"
    under_shift = "invariant"
    differs: ClassVar[Mapping[str, str]] = {
        "verl": "grpo_passk divides by the group's standard deviation plus 1e-6 unless told otherwise, judges ties bit by "
        "bit, and stops at a group of one.",
    }

    def __init__(self, *, scale: Literal["none", "group"] = "none", ddof: int = 1, eps: float = 1e-6) -> None:
        require(scale in ("none", "group"), "scale", scale, "is no scale", "set 'none' or 'group'")
        require(ddof in (0, 1), "ddof", ddof, "is neither 0 nor 1", "set 1 (sample) or 0 (population)")
        require_range("eps", eps, low=0.0, high=float("inf"), high_open=True)
        self.scale, self.ddof, self.eps = scale, ddof, eps
        self.under_scale = "equivariant" if scale == "none" else "invariant"

    @override
    def estimate(self, rewards_R: Tensor, groups: Groups, table: RolloutTable) -> Tensor:
        best_R = groups.max(rewards_R)[groups.index_R]
        tolerance_R = groups.tolerance(rewards_R, table.reward_epsilon, table.sizes_R)[groups.index_R]
        near_R = best_R - rewards_R <= tolerance_R
        alone_R = near_R & (groups.sum(near_R.to(torch.int64)) == 1)[groups.index_R]
        second_G = groups.max(rewards_R.masked_fill(near_R, -torch.inf))
        lead_R = torch.where(alone_R, rewards_R - second_G[groups.index_R], 0.0)
        if self.scale == "none":
            return lead_R
        # What a group of one or of equal rewards gets here is no number: the caller puts 0 in its place.
        return lead_R / (groups.std(rewards_R, self.ddof)[groups.index_R] + self.eps)

    @override
    def formula(self) -> Formula:
        text, latex = (
            "max_{j in g} r_j - max_{j in g, j != i} r_j",
            r"\max_{j \in g} r_j - \max_{j \in g,\, j \ne i} r_j",
        )
        symbols = {"g": "the group of row i"}
        if self.scale == "group":
            text = f"({text}) / (std_g + {number(self.eps)})"
            latex = rf"\frac{{{latex}}}{{\sigma_g + {latex_number(self.eps)}}}"
            symbols["std_g"] = f"standard deviation of the group's rewards, with ddof {self.ddof}"
        return Formula(f"A_i = {text}", f"A_i = {latex}", symbols, ("Tang et al., arXiv 2503.19595",))
