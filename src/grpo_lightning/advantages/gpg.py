"""Rewards minus their group's mean, scaled up for the groups that say nothing (GPG)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor
from typing_extensions import override

from grpo_lightning.advantages.base import Advantage
from grpo_lightning.formula import Formula
from grpo_lightning.functional.groups import Groups
from grpo_lightning.types import RolloutTable


class GPG(Advantage):
    """GPG's advantage, ``A_i = B / (B - M) (r_i - mean_g)``, in units of reward.

    ``B`` is the number of valid rows of the rollout on all ranks, ``M`` the number of those in groups whose rewards are
    all equal (a group of one is). Those groups have no gradient but count in the loss's normaliser; the factor gives the
    others the weight that they would have had without them. Where all groups are such (``B = M``), all get 0. The
    advantages of a group add up to 0. Adding a constant to a group's rewards changes nothing; multiplying all rewards by a
    constant multiplies the advantages.

    Source: Chu et al., arXiv 2504.02546, with their ``F_norm = 1``. Their threshold on the share of groups with a signal,
    below which more is sampled, is a selector's.

    Example:
        >>> from grpo_lightning.advantages.gpg import GPG
        >>> from grpo_lightning.types import RolloutTable
        >>> GPG()(RolloutTable.of([0.0, 1.0, 1.0, 1.0], groups=[0, 0, 1, 1])).tolist()
        [-1.0, 1.0, 0.0, 0.0]
    """

    name = "gpg"
    under_shift = "invariant"
    under_scale = "equivariant"
    batch_statistics = True
    differs: ClassVar[Mapping[str, str]] = {
        "verl": "The factor is B over the number of rows whose reward is not 0: a rollout where a quarter of the rows "
        "scores gets the factor 4 whatever its groups say. A group of one gets its raw reward.",
    }

    @override
    def estimate(self, rewards_R: Tensor, groups: Groups, table: RolloutTable) -> Tensor:
        rows, silent_rows = len(rewards_R), int(groups.sizes_G[self.silent(groups, table)].sum())
        return groups.centered(rewards_R) * (rows / max(rows - silent_rows, 1))

    @override
    def formula(self) -> Formula:
        return Formula(
            text="A_i = B / (B - M) (r_i - mean_g)",
            latex=r"A_i = \frac{B}{B - M} (r_i - \bar r_g)",
            symbols={
                "mean_g": "mean reward of the row's group",
                "B": "valid rows of the rollout",
                "M": "rows in groups whose rewards are all equal",
            },
            sources=("Chu et al., arXiv 2504.02546",),
        )
