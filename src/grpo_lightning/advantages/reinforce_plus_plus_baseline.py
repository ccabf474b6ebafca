"""Rewards minus their group's mean, whitened over the rollout (REINFORCE++ with a baseline)."""

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


class ReinforcePlusPlusBaseline(Advantage):
    """REINFORCE++-baseline, ``A_i = (A'_i - mean(A')) / (std(A') + eps)`` with ``A'_i = r_i - mean_g``.

    ``mean_g`` is the mean of the row's group; ``mean`` and ``std`` are over the trainable steps of the whole rollout on
    all ranks, where a step has the ``A'`` of its row (or over rows, see ``over``). Over steps, a long row counts more,
    so the advantages of a group need not add up to 0. The result has no unit.

    A group of one, and a group whose rewards are equal, is 0 before it would be whitened: it gets exactly 0 and its steps
    are in neither moment, so that more of them do not magnify the others.

    Source: Hu et al., arXiv 2501.03262 (REINFORCE++ with baseline), which gives no ``ddof`` and no value of ``eps``; the
    authors' OpenRLHF divides by the number of steps (``ddof=0``). The paper's KL is ``k2`` in the loss.

    Args:
        over: What the moments are over: ``steps`` or ``rows``.
        ddof: Taken from the number of steps (rows) in the standard deviation: 0 or 1.
        eps: Added to the standard deviation; not negative.

    Example:
        >>> from grpo_lightning.advantages.reinforce_plus_plus_baseline import ReinforcePlusPlusBaseline
        >>> from grpo_lightning.types import RolloutTable
        >>> table = RolloutTable.of([0.0, 2.0], groups=[0, 0], lengths=[1, 4])
        >>> ReinforcePlusPlusBaseline(eps=0.0)(table).tolist()
        [-2.0, 0.5]
    """

    name = "reinforce_plus_plus_baseline"
    under_shift = "invariant"
    under_scale = "invariant"
    batch_statistics = True
    differs: ClassVar[Mapping[str, str]] = {
        "verl": "Divides by sqrt(variance + 1e-8) with ddof 1; a group of one enters with its raw reward, and groups of "
        "equal rewards count in both moments, which makes the advantages of the others larger.",
        "OpenRLHF": "Divides by sqrt(max(variance, 1e-8)) with ddof 0; groups of equal rewards count in both moments. A KL "
        "in the reward is taken off before whitening.",
        "NeMo-RL": "As OpenRLHF: ddof 0, the variance clamped at 1e-8, groups of equal rewards counted.",
        "ms-swift": "Moments over rows, as over='rows' here.",
    }

    def __init__(self, *, over: Literal["steps", "rows"] = "steps", ddof: int = 0, eps: float = 1e-8) -> None:
        require(over in ("steps", "rows"), "over", over, "is nothing to whiten over", "set 'steps' or 'rows'")
        require(ddof in (0, 1), "ddof", ddof, "is neither 0 nor 1", "set 1 (sample) or 0 (population)")
        require_range("eps", eps, low=0.0, high=float("inf"), high_open=True)
        self.over, self.ddof, self.eps = over, ddof, eps

    @override
    def estimate(self, rewards_R: Tensor, groups: Groups, table: RolloutTable) -> Tensor:
        counts_R = table.lengths_R if self.over == "steps" else torch.ones_like(table.lengths_R)
        speaking_R = ~self.silent(groups, table)[groups.index_R]
        return whitened(groups.centered(rewards_R), counts_R * speaking_R, ddof=self.ddof, eps=self.eps)

    @override
    def formula(self) -> Formula:
        eps, latex_eps = number(self.eps), latex_number(self.eps)
        return Formula(
            text=f"A_i = (A'_i - mean_B) / (std_B + {eps}), A'_i = r_i - mean_g",
            latex=rf"A_i = \frac{{A'_i - \mu_B}}{{\sigma_B + {latex_eps}}},\quad A'_i = r_i - \bar r_g",
            symbols={
                "mean_g": "mean reward of the row's group",
                "mean_B": f"mean of A' over the {self.over} of the rollout, groups without a difference left out",
                "std_B": f"standard deviation of A' over the same {self.over}, with ddof {self.ddof}",
            },
            sources=("Hu et al., arXiv 2501.03262",),
        )
