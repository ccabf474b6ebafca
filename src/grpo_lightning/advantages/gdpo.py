"""Each reward of its own in standard deviations of its group, added up and whitened (GDPO)."""

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
from grpo_lightning.functional.whitening import whitened
from grpo_lightning.types import RolloutTable


class GDPO(Advantage):
    """GDPO, ``A_i = (S_i - mean_B) / (std_B + eps)``, ``S_i = sum_k w_ik (r_ik - mean_gk) / (std_gk + eps)``.

    ``r_ik`` is the raw score of reward k for row i and ``w_ik`` its weight in the composed reward; ``mean_gk`` and
    ``std_gk`` are over the rows of the group that the reward scores. ``mean_B`` and ``std_B`` are over the rows of the whole
    rollout on all ranks (or its trainable steps, see ``over``). So a reward of small spread counts as much as one of large.
    A reward that is only logged has no weight, so no part; gates are refused. Where the table has no weights, the composed
    reward is the only one, with weight 1. With a single reward it is ``group_norm`` whitened, not ``group_norm``.

    Degenerate cases: a reward that abstains for a row leaves its own statistics and adds 0 to the row. A reward adds 0 to a
    group of which it scores one row, or all alike (within ``4 * epsilon * max |r_gk|``). A group whose ``S`` are all alike,
    within what that tolerance becomes in them (``4 * epsilon' * sum_k |w_k| max |r_gk| / (std_gk + eps)``, ``epsilon'`` at
    least the group's size times that of float64), gets exactly 0 and is in neither moment. That the composed rewards of a
    group are equal does not silence it: that rewards of opposite rows stay apart is the point.

    Source: Liu et al., arXiv 2601.05242, which gives no ``ddof`` and no value of ``eps``; the authors' TRL code has
    ``ddof=1`` and 1e-4, and whitens over rows.

    Args:
        over: What the last moments are over: ``rows`` or ``steps``.
        ddof: Taken from the counts in all standard deviations: 1 (sample) or 0 (population).
        eps: Added to all standard deviations; not negative.

    Example:
        >>> from grpo_lightning.advantages.gdpo import GDPO
        >>> from grpo_lightning.types import RolloutTable
        >>> GDPO(eps=0.0)(RolloutTable.of([1.0, 3.0, 2.0], groups=[0, 0, 0])).tolist()
        [-1.0, 1.0, 0.0]
    """

    name = "gdpo"
    under_shift = "invariant"
    under_scale = "invariant"
    batch_statistics = True
    reads_components = True
    differs: ClassVar[Mapping[str, str]] = {
        "TRL": "multi_objective_aggregation='normalize_then_sum': ddof 1, eps 1e-4 twice; groups of equal scores count in the "
        "last moments, which makes the advantages of the others larger.",
        "verl": "The last moments are over steps, with ddof 1 and sqrt(variance + 1e-8); weights and rewards are named anew in "
        "its algorithm's settings.",
        "NeMo-RL": "By default each score is compared with mean and standard deviation of the other rows only (leave-one-out); "
        "nothing is added to the last standard deviation; a single reward is refused.",
    }

    def __init__(self, *, over: Literal["rows", "steps"] = "rows", ddof: int = 1, eps: float = 1e-6) -> None:
        require(over in ("steps", "rows"), "over", over, "is nothing to whiten over", "set 'rows' or 'steps'")
        require(ddof in (0, 1), "ddof", ddof, "is neither 0 nor 1", "set 1 (sample) or 0 (population)")
        require_range("eps", eps, low=0.0, high=float("inf"), high_open=True)
        self.over, self.ddof, self.eps = over, ddof, eps

    @override
    def silent(self, groups: Groups, valid: RolloutTable) -> Tensor:
        return self._sums(groups, valid)[1]

    @override
    def estimate(self, rewards_R: Tensor, groups: Groups, table: RolloutTable) -> Tensor:
        sums_R, silent_G = self._sums(groups, table)
        counts_R = table.lengths_R if self.over == "steps" else torch.ones_like(table.lengths_R)
        return whitened(sums_R, counts_R * ~silent_G[groups.index_R], ddof=self.ddof, eps=self.eps)

    def _sums(self, groups: Groups, table: RolloutTable) -> tuple[Tensor, Tensor]:
        """[R] ``S``, and [G] bool: groups in which no two rows differ by more than rounding."""
        sums_R = torch.zeros(len(table), dtype=torch.float64)
        noise_G = torch.zeros(len(groups), dtype=torch.float64)
        epsilon_G = (groups.sizes_G * torch.finfo(torch.float64).eps).clamp(min=table.reward_epsilon)
        for scores_R, weights_R in _weighted(table):
            scored = (~scores_R.isnan()).nonzero().squeeze(1)
            parts = Groups.of(groups.index_R[scored])
            of_G = torch.unique(groups.index_R[scored])
            scores, weights = scores_R[scored], weights_R[scored]
            std = parts.std(scores, self.ddof) + self.eps
            speaks = (parts.sizes_G > 1) & ~parts.unanimous(scores, table.reward_epsilon)
            normed = torch.where(speaks[parts.index_R], parts.centered(scores) / std[parts.index_R], 0.0)
            sums_R[scored] += weights * normed
            size = parts.max(weights.abs()) * parts.tolerance(scores, 1.0) / std
            noise_G[of_G] += torch.where(speaks, size, 0.0) * epsilon_G[of_G]
        small_G = groups.sizes_G < self.smallest_group
        return sums_R, small_G | (groups.max(sums_R) - groups.min(sums_R) <= noise_G)

    @override
    def formula(self) -> Formula:
        eps, latex_eps = number(self.eps), latex_number(self.eps)
        return Formula(
            text=f"A_i = (S_i - mean_B) / (std_B + {eps}), S_i = sum_k w_k (r_ik - mean_gk) / (std_gk + {eps})",
            latex=rf"A_i = \frac{{S_i - \mu_B}}{{\sigma_B + {latex_eps}}},\quad "
            rf"S_i = \sum_k w_k \frac{{r_i^{{(k)}} - \bar r_g^{{(k)}}}}{{\sigma_g^{{(k)}} + {latex_eps}}}",
            symbols={
                "r_ik, w_k": "score of row i by reward k, and its weight",
                "mean_gk, std_gk": f"moments of reward k in the row's group, with ddof {self.ddof}",
                "mean_B, std_B": f"moments of S over the {self.over} of the rollout, groups without a difference left out",
            },
            sources=("Liu et al., arXiv 2601.05242",),
        )


def _weighted(table: RolloutTable) -> list[tuple[Tensor, Tensor]]:
    """Scores and weights of the rewards that have a weight; of the composed reward where none has."""
    pairs = [
        (scores_R.to(torch.float64), table.weights[name].to(torch.float64))
        for name, scores_R in table.components.items()
        if name in table.weights and bool((table.weights[name] != 0).any())
    ]
    rewards_R = table.rewards_R.to(torch.float64)
    return pairs or [(rewards_R, torch.ones_like(rewards_R))]
