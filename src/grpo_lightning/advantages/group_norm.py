"""Rewards in standard deviations of their group (GRPO)."""

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


class GroupNorm(Advantage):
    """GRPO's advantage, ``A_i = (r_i - mean_g) / (max(std, std_floor) + eps)``.

    ``mean_g`` is the mean of the row's group. Which standard deviation ``std`` is, ``scale`` says: of the row's
    group, of all valid rewards of the rollout over all ranks, or none (``A_i = r_i - mean_g``). Statistics are over
    valid rows, in float64. The advantages of a group add up to 0.

    Adding a constant to all rewards changes nothing. Multiplying all by a positive constant changes nothing for
    ``eps = std_floor = 0``, next to nothing for an ``eps`` far below ``std``, and multiplies the advantages for
    ``scale="none"``. With ``scale="group"`` both constants may differ from group to group.

    Source: Shao et al. (DeepSeekMath), arXiv 2402.03300. The paper gives no ``eps`` and does not say which ``ddof`` it
    uses; with ``ddof=0, eps=0`` this is its formula with the population's standard deviation.

    Args:
        ddof: Taken from the number of rows in the standard deviation: 1 (sample) or 0 (population).
        eps: Added to the standard deviation; not negative.
        std_floor: Smallest standard deviation that is divided by, in units of reward; it bounds how much a group that
            barely disagrees is magnified.
        scale: ``group``, ``rollout`` or ``none``.

    Example:
        >>> from grpo_lightning.advantages.group_norm import GroupNorm
        >>> from grpo_lightning.types import RolloutTable
        >>> GroupNorm(eps=0.0)(RolloutTable.of([1.0, 0.0, 0.0, 0.0], groups=[0, 0, 0, 0])).tolist()
        [1.5, -0.5, -0.5, -0.5]
    """

    name = "group_norm"
    under_shift = "invariant"
    differs: ClassVar[Mapping[str, str]] = {
        "TRL": "eps is 1e-4, ddof 1; equal rewards that are not exact in binary leave rounding noise, divided by 1e-4.",
        "verl": "eps is 1e-6, ddof 1; equal rewards leave noise divided by 1e-6; a group of one gets its raw reward.",
        "OpenRLHF": "eps is 1e-9, ddof 1, so that the rounding noise of equal rewards is not damped at all.",
        "NeMo-RL": "By default mean and standard deviation are those of the other rows of the group, and a row whose others "
        "are all equal is not divided: unbounded, and it jumps.",
    }

    def __init__(
        self,
        *,
        ddof: int = 1,
        eps: float = 1e-6,
        std_floor: float = 0.0,
        scale: Literal["group", "rollout", "none"] = "group",
    ) -> None:
        require(ddof in (0, 1), "ddof", ddof, "is neither 0 nor 1", "set 1 (sample) or 0 (population)")
        require_range("eps", eps, low=0.0, high=float("inf"), high_open=True)
        require_range("std_floor", std_floor, low=0.0, high=float("inf"), high_open=True)
        scales = ("group", "rollout", "none")
        require(scale in scales, "scale", scale, "is no scale", "set 'group', 'rollout' or 'none'")
        require(
            scale != "none" or std_floor == 0, "std_floor", std_floor, "has no meaning for scale 'none'", "leave it out"
        )
        self.ddof, self.eps, self.std_floor, self.scale = ddof, eps, std_floor, scale
        self.under_scale = "equivariant" if scale == "none" else "invariant" if std_floor == 0 else None
        self.batch_statistics = scale == "rollout"

    @override
    def estimate(self, rewards_R: Tensor, groups: Groups, table: RolloutTable) -> Tensor:
        centered_R = groups.centered(rewards_R)
        if self.scale == "none":
            return centered_R
        whole = groups if self.scale == "group" else Groups.of(torch.zeros_like(groups.index_R))
        std_R = whole.std(rewards_R, self.ddof)[whole.index_R]
        # 0 / 0 of a silent group is not a number here; the caller puts 0 in its place.
        return centered_R / (std_R.clamp(min=self.std_floor) + self.eps)

    @override
    def formula(self) -> Formula:
        symbols = {"mean_g": "mean reward of the row's group"}
        if self.scale == "none":
            return Formula("A_i = r_i - mean_g", r"A_i = r_i - \bar r_g", symbols, _SOURCES)
        whose = "group's" if self.scale == "group" else "rollout's"
        std, latex_std = ("std_g", r"\sigma_g") if self.scale == "group" else ("std_B", r"\sigma_B")
        symbols[std] = f"standard deviation of the {whose} rewards, with ddof {self.ddof}"
        if self.std_floor > 0:
            std = f"max({std}, {number(self.std_floor)})"
            latex_std = rf"\max({latex_std}, {latex_number(self.std_floor)})"
        return Formula(
            text=f"A_i = (r_i - mean_g) / ({std} + {number(self.eps)})",
            latex=rf"A_i = \frac{{r_i - \bar r_g}}{{{latex_std} + {latex_number(self.eps)}}}",
            symbols=symbols,
            sources=_SOURCES,
        )


_SOURCES = ("Shao et al. (DeepSeekMath), arXiv 2402.03300",)
