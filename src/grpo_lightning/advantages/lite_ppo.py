"""Rewards minus their group's mean, in standard deviations of the rollout's rewards (LitePPO)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.advantages.base import Advantage
from grpo_lightning.errors import require, require_range
from grpo_lightning.formula import Formula, latex_number, number
from grpo_lightning.functional.groups import Groups
from grpo_lightning.types import RolloutTable


class LitePPO(Advantage):
    """LitePPO's normalisation, ``A_i = (r_i - mean_g) / (std_B + eps)``.

    ``mean_g`` is the mean of the row's group, ``std_B`` the standard deviation of all valid rewards of the rollout on all
    ranks, those of groups of equal rewards included. A group that barely disagrees is not magnified, as it would be by its
    own standard deviation. The advantages of a group add up to 0. Adding a constant to all rewards changes nothing;
    multiplying them by a constant changes next to nothing for an ``eps`` far below ``std_B``. A group of one, or of equal
    rewards, gets 0. ``group_norm`` with ``scale="rollout"`` is the same number.

    Source: Liu et al., arXiv 2508.08221, which gives neither ``eps`` nor ``ddof``. The other half of the method is the
    loss: a mean over steps (aggregation ``token_mean``).

    Args:
        ddof: Taken from the number of rows in the standard deviation: 1 (sample) or 0 (population).
        eps: Added to the standard deviation; not negative.

    Example:
        >>> from grpo_lightning.advantages.lite_ppo import LitePPO
        >>> from grpo_lightning.types import RolloutTable
        >>> LitePPO(eps=0.0)(RolloutTable.of([0.0, 2.0, 2.0, 2.0], groups=[0, 0, 1, 1])).tolist()
        [-1.0, 1.0, 0.0, 0.0]
    """

    name = "lite_ppo"
    under_shift = "invariant"
    under_scale = "invariant"
    batch_statistics = True
    differs: ClassVar[Mapping[str, str]] = {
        "TRL": "scale_rewards='batch' is the same with eps 1e-4; equal rewards that are not exact in binary leave noise.",
    }

    def __init__(self, *, ddof: int = 1, eps: float = 1e-6) -> None:
        require(ddof in (0, 1), "ddof", ddof, "is neither 0 nor 1", "set 1 (sample) or 0 (population)")
        require_range("eps", eps, low=0.0, high=float("inf"), high_open=True)
        self.ddof, self.eps = ddof, eps

    @override
    def estimate(self, rewards_R: Tensor, groups: Groups, table: RolloutTable) -> Tensor:
        std = Groups.of(torch.zeros_like(groups.index_R)).std(rewards_R, self.ddof)
        # 0 / 0 where no two rewards differ is not a number here; the caller puts 0 in its place.
        return groups.centered(rewards_R) / (std + self.eps)

    @override
    def formula(self) -> Formula:
        return Formula(
            text=f"A_i = (r_i - mean_g) / (std_B + {number(self.eps)})",
            latex=rf"A_i = \frac{{r_i - \bar r_g}}{{\sigma_B + {latex_number(self.eps)}}}",
            symbols={
                "mean_g": "mean reward of the row's group",
                "std_B": f"standard deviation of all rewards of the rollout, with ddof {self.ddof}",
            },
            sources=("Liu et al., arXiv 2508.08221",),
        )
