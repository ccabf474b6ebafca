"""Returns-to-go, whitened over the whole rollout (REINFORCE++)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.advantages.base import StepAdvantage
from grpo_lightning.errors import require, require_range
from grpo_lightning.formula import Formula, latex_number, number
from grpo_lightning.functional.returns import returns_to_go
from grpo_lightning.steps import RolloutSteps
from grpo_lightning.types import RolloutTable


class ReinforcePlusPlus(StepAdvantage):
    """REINFORCE++'s advantage, ``A_it = (R_it - mean_B) / (std_B + eps)`` with ``R_it = sum_{s>=t} gamma^(s-t) r_is``.

    ``r_is`` is what step ``s`` of row ``i`` earned: the row's reward at its last step, less the KL penalty of each step
    where the configuration puts the KL in the reward. Steps are the trainable ones only; what an environment wrote
    between them is skipped. ``mean_B`` and ``std_B`` are over all trainable steps of the valid rows of the rollout, on all
    ranks, so long rows weigh more. No statistic of a group enters: groups of one are allowed.

    If no return differs from ``mean_B`` by more than ``4 * epsilon`` of the larger of both (``epsilon`` of the type the
    rewards arrived in) every step gets exactly 0. A group whose rewards are all equal keeps its advantages otherwise.

    Source: Hu et al., arXiv 2501.03262. The paper gives no ``eps`` and no ``ddof``, and has ``gamma = 1``.

    Args:
        gamma: Discount per trainable step, from 0 to 1.
        eps: Added to the standard deviation; not negative.
        ddof: Taken from the number of steps in the standard deviation: 1 (sample) or 0 (population).

    Example:
        >>> import torch
        >>> from grpo_lightning.advantages.reinforce_plus_plus import ReinforcePlusPlus
        >>> from grpo_lightning.steps import RolloutSteps
        >>> from grpo_lightning.types import RolloutTable
        >>> table = RolloutTable.of([1.0, 0.0], groups=[0, 0])
        >>> steps = RolloutSteps(torch.tensor([0, 1, 1]), torch.zeros(3), torch.tensor([1.0, 0.0, 0.0]).double())
        >>> [round(value, 4) for value in ReinforcePlusPlus(ddof=0)(table, steps).tolist()]  # mean 1/3
        [1.4142, -0.7071, -0.7071]
    """

    name = "reinforce_plus_plus"
    under_scale = "invariant"
    batch_statistics = True
    compares = False
    differs: ClassVar[Mapping[str, str]] = {
        "verl": "sets the running return to 0 at every token that is not trainable, so steps before an observation of an "
        "environment earn nothing of what comes after it; divides by sqrt(variance + 1e-8).",
    }

    def __init__(self, *, gamma: float = 1.0, eps: float = 1e-8, ddof: int = 1) -> None:
        require_range("gamma", gamma, low=0.0, high=1.0)
        require_range("eps", eps, low=0.0, high=float("inf"), high_open=True)
        require(ddof in (0, 1), "ddof", ddof, "is neither 0 nor 1", "set 1 (sample) or 0 (population)")
        self.gamma, self.eps, self.ddof = gamma, eps, ddof
        # With a discount, what a constant adds depends on how far the end of the row is.
        self.under_shift = "invariant" if gamma == 1 else None

    @override
    def formula(self) -> Formula:
        factor = "" if self.gamma == 1 else f"{number(self.gamma)}^(s-t) "
        latex_factor = "" if self.gamma == 1 else rf"{latex_number(self.gamma)}^{{s-t}} "
        divisor = f"(std_B + {number(self.eps)})" if self.eps else "std_B"
        latex_divisor = rf"\sigma_B + {latex_number(self.eps)}" if self.eps else r"\sigma_B"
        return Formula(
            text=f"A_it = (R_it - mean_B) / {divisor}, R_it = sum_{{s>=t}} {factor}r_is",
            latex=rf"A_{{i,t}} = \frac{{R_{{i,t}} - \mu_B}}{{{latex_divisor}}}, "
            rf"\quad R_{{i,t}} = \sum_{{s \ge t}} {latex_factor}r_{{i,s}}",
            symbols={
                "r_is": "what step s of row i earned, a KL in the reward included",
                "mean_B": "mean of R over all trainable steps of the rollout, on all ranks",
                "std_B": f"standard deviation of R over the same steps, ddof {self.ddof}",
            },
            sources=("Hu et al., REINFORCE++, arXiv 2501.03262",),
        )

    @override
    def estimate_steps(self, table: RolloutTable, steps: RolloutSteps) -> Tensor:
        valid_S = table.valid_R[steps.row_S]
        returns_S = returns_to_go(steps.rewards_S, steps.row_S, self.gamma)
        mean, _ = steps.moments(returns_S, valid_S, self.ddof)
        # The mean is rounded to the size of the returns; the mean of what is left mends it to the size of the deviations.
        rest, std = steps.moments(returns_S - mean, valid_S, self.ddof)
        centered_S = returns_S - mean - rest
        tolerance_S = 4 * table.reward_epsilon * torch.maximum(returns_S.abs(), mean.abs())
        deviating, _ = steps.moments((centered_S.abs() > tolerance_S).to(torch.float64), valid_S)
        return torch.where(deviating == 0, 0.0, centered_S / (std + self.eps))
