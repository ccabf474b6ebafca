"""Returns-to-go minus the baseline of least variance at each position of a group (OTB)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.advantages.base import StepAdvantage
from grpo_lightning.errors import require
from grpo_lightning.formula import Formula, latex_number, number
from grpo_lightning.functional.groups import Groups
from grpo_lightning.functional.returns import returns_to_go, running_sums
from grpo_lightning.steps import RolloutSteps
from grpo_lightning.types import RolloutTable


class OptimalTokenBaseline(StepAdvantage):
    """OTB's advantage, ``A_it = G_it - (sum_j W_jt G_jt) / (sum_j W_jt)`` over the rows of the group that reach step ``t``.

    ``G_it = sum_{s>=t} r_is`` is the return-to-go and ``W_it = sum_{s<=t} w_is`` the energy that the row has used up to
    there, with ``w_is = 1 - 2 pi(y_is) + sum_v pi(v)^2``, the squared length of the gradient of ``log pi(y_is)`` towards
    the logits, under the policy at the start of the updates. Rows with much energy move the policy much, so their returns
    weigh more. Positions count trainable steps only: what an environment wrote is skipped, as in the paper's variant for
    tools. In units of reward; nothing is normalised.

    Where a single row is left of a group of several (its tail), the baseline is 0 and the advantage ``G_it``. Where the
    returns of the rows that are left are equal within the tolerance for rewards, the advantage is exactly 0; so it is in
    a group of one valid row. Where no row has any energy (the policy had no choice up to there) all rows weigh the same.

    With ``cap``, rows that were sampled by another distribution than the policy's weigh as much as they do under
    importance weights truncated at ``cap``: ``w_is`` is multiplied by ``min(pi(y_is) / mu(y_is), cap)^2`` before it is
    added up, ``mu`` being the distribution that sampled. Use the ``cap`` of the correction that weighs the loss.

    Source: Li et al., arXiv 2602.07078; where the importance weights enter is taken from the authors' code in verl.

    Args:
        cap: Largest importance weight, at least 1; ``None``: no importance weights.

    Example:
        >>> import torch
        >>> from grpo_lightning.advantages.otb import OptimalTokenBaseline
        >>> from grpo_lightning.steps import RolloutSteps
        >>> from grpo_lightning.types import RolloutTable
        >>> table = RolloutTable.of([1.0, 0.0], groups=[0, 0])
        >>> probability, squares = torch.tensor([0.5, 0.25, 0.5]).double(), torch.tensor([0.5, 0.625, 0.5]).double()
        >>> steps = RolloutSteps(torch.tensor([0, 1, 1]), torch.zeros(3), torch.tensor([1.0, 0.0, 0.0]).double(),
        ...                      {"log_prob": probability.log(), "sum_of_squares": squares})
        >>> advantages = OptimalTokenBaseline()(table, steps)  # energies 0.5 and 1.125: the baseline is 0.5 / 1.625
        >>> [round(value, 4) for value in advantages.tolist()]
        [0.6923, -0.3077, 0.0]
    """

    name = "otb"
    under_scale = "equivariant"
    functionals = frozenset({"log_prob", "sum_of_squares"})
    differs: ClassVar[Mapping[str, str]] = {
        "verl": "adds 1e-8 to the sum of weights, so the baseline fades to 0 where the policy had next to no choice; a "
        "group of one row keeps its return instead of 0; optimal_token_baseline aligns rows by token and counts what an "
        "environment wrote, tir_optimal_token_baseline does not; the tail's 0 is an option.",
    }

    def __init__(self, *, cap: float | None = None) -> None:
        require(
            cap is None or 1 <= cap < math.inf,
            "cap",
            cap,
            "is below 1 or no number",
            "set the largest importance weight, or leave it out for no importance weights",
        )
        self.cap = cap

    @override
    def formula(self) -> Formula:
        ratio = "" if self.cap is None else f"min(pi/mu, {number(self.cap)})^2 "
        latex_ratio = "" if self.cap is None else rf"\min(\pi/\mu, {latex_number(self.cap)})^2 \, "
        return Formula(
            text="A_it = G_it - (sum_j W_jt G_jt) / (sum_j W_jt), G_it = sum_{s>=t} r_is, W_it = sum_{s<=t} w_is, "
            f"w_is = {ratio}(1 - 2 pi(y_is) + sum_v pi(v)^2)",
            latex=r"A_{i,t} = G_{i,t} - \frac{\sum_j W_{j,t} G_{j,t}}{\sum_j W_{j,t}}, \quad "
            r"G_{i,t} = \sum_{s \ge t} r_{i,s}, \quad W_{i,t} = \sum_{s \le t} w_{i,s}, \quad "
            rf"w_{{i,s}} = {latex_ratio}\bigl(1 - 2\pi(y_{{i,s}}) + \textstyle\sum_v \pi(v)^2\bigr)",
            symbols={
                "r_is": "what step s of row i earned, a KL in the reward included",
                "j": "rows of the group that have a step t; the baseline is 0 where there is one",
                "pi": "policy at the start of the updates",
                **({} if self.cap is None else {"mu": "distribution that sampled"}),
            },
            sources=("Li et al., The Optimal Token Baseline, arXiv 2602.07078",),
        )

    @override
    def estimate_steps(self, table: RolloutTable, steps: RolloutSteps) -> Tensor:
        valid_S = table.valid_R[steps.row_S]
        returns_S = returns_to_go(steps.rewards_S, steps.row_S)
        weights_S = running_sums(self._energy(steps), steps.row_S)
        groups = Groups.of(table.group_R)
        members_S = groups.sum(table.valid_R.to(torch.int64))[groups.index_R][steps.row_S]
        positions_S = steps.positions()
        rows_after = int(positions_S.max()) + 1 if positions_S.numel() else 1
        ids_S = groups.index_R[steps.row_S] * rows_after + positions_S
        advantages_S = torch.zeros_like(returns_S)
        advantages_S[valid_S] = _against_position(
            returns_S[valid_S], weights_S[valid_S], Groups.of(ids_S[valid_S]), table.reward_epsilon
        )
        return torch.where(members_S > 1, advantages_S, 0.0)

    def _energy(self, steps: RolloutSteps) -> Tensor:
        """[S]: ``w_is``. Written as ``(1 - pi(y))^2 + sum_{v != y} pi(v)^2``, which keeps its digits near ``pi(y) = 1``."""
        log_probs_S = steps.functionals["log_prob"]
        others_S = (steps.functionals["sum_of_squares"] - (2 * log_probs_S).exp()).clamp(min=0)
        energy_S = torch.expm1(log_probs_S) ** 2 + others_S
        if self.cap is None:
            return energy_S
        if steps.behaviour_log_probs_S is None:
            raise ValueError("advantage 'otb' with a cap needs the log-probabilities of the distribution that sampled")
        log_ratio_S = (log_probs_S - steps.behaviour_log_probs_S).clamp(max=math.log(self.cap))
        return energy_S * (2 * log_ratio_S).exp()


def _against_position(returns_S: Tensor, weights_S: Tensor, cells: Groups, epsilon: float) -> Tensor:
    """[S]: returns minus their weighted mean in the cell (group and position), by the rules for small cells."""
    largest_S = cells.max(weights_S)[cells.index_R]
    shares_S = torch.where(largest_S > 0, weights_S / largest_S, 1.0)
    centered_S = cells.centered(returns_S)
    shift_C = cells.sum(shares_S * centered_S) / cells.sum(shares_S)
    equal_S = cells.unanimous(returns_S, epsilon)[cells.index_R]
    alone_S = (cells.sizes_G == 1)[cells.index_R]
    return torch.where(alone_S, returns_S, torch.where(equal_S, 0.0, centered_S - shift_C[cells.index_R]))
