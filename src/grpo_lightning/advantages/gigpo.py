"""Episodes against their group, and turns against other turns from the same state (GiGPO)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.advantages.base import StepAdvantage
from grpo_lightning.errors import require, require_range
from grpo_lightning.formula import Formula, latex_number, number
from grpo_lightning.functional.groups import Groups
from grpo_lightning.functional.returns import returns_to_go
from grpo_lightning.steps import RolloutSteps
from grpo_lightning.types import RolloutTable


class GiGPO(StepAdvantage):
    """GiGPO's advantage, ``A_it = (r_i - mean_g) / F_g + omega (R_ik - mean_s) / F_s`` for every step ``t`` of turn ``k``.

    The first part compares whole rows inside their group (equation 3 of the paper). The second compares turns that began
    in the same state (equations 6 and 7): ``R_ik = sum_{l>=k} gamma^(l-k) r_il`` is the discounted return of a turn
    (equation 5), ``r_il`` what the steps of turn ``l`` earned, and ``mean_s`` the mean over all turns of the group, of
    whatever row, that began in state ``s``; a row that comes back to a state is counted at every visit. Equation 8 adds
    them up. ``F`` is 1, or the standard deviation of what is compared plus ``eps``.

    Rows of equal reward have the first part exactly 0 and keep the second. A turn whose state no other turn shares, or
    whose return is that of all others from its state within the tolerance for rewards, has the second part exactly 0; so
    has a turn without a state. A group of one row has no first part.

    Source: Feng et al., arXiv 2505.10978.

    Args:
        omega: Weight of the part of turns; not negative.
        gamma: Discount per turn, from 0 to 1.
        scale: ``none`` (``F = 1``) or ``std``.
        ddof: Taken from the number of values in the standard deviation: 1 (sample) or 0 (population).
        eps: Added to the standard deviation; not negative.

    Example:
        >>> import torch
        >>> from grpo_lightning.advantages.gigpo import GiGPO
        >>> from grpo_lightning.steps import RolloutSteps
        >>> from grpo_lightning.types import RolloutTable
        >>> table = RolloutTable.of([1.0, 0.0], groups=[0, 0])
        >>> steps = RolloutSteps(
        ...     torch.tensor([0, 0, 1]), torch.tensor([0, 1, 0]), torch.tensor([0.0, 1.0, 0.0]).double(),
        ...     state_S=torch.tensor([7, 8, 7]),
        ... )
        >>> GiGPO(gamma=0.5)(table, steps).tolist()  # turns from state 7 return 0.5 and 0, state 8 is met once
        [0.75, 0.5, -0.75]
    """

    name = "gigpo"
    needs_states = True
    differs: ClassVar[Mapping[str, str]] = {
        "verl-agent": "an episode alone in its group keeps its whole return as first part; where the mean and standard "
        "deviation of a group are taken over all its turns (compute_mean_std_cross_steps), long episodes weigh more.",
    }

    def __init__(
        self,
        *,
        omega: float = 1.0,
        gamma: float = 0.95,
        scale: Literal["none", "std"] = "none",
        ddof: int = 1,
        eps: float = 1e-6,
    ) -> None:
        require_range("omega", omega, low=0.0, high=float("inf"), high_open=True)
        require_range("gamma", gamma, low=0.0, high=1.0)
        require(scale in ("none", "std"), "scale", scale, "is no scale", "set 'none' or 'std'")
        require(ddof in (0, 1), "ddof", ddof, "is neither 0 nor 1", "set 1 (sample) or 0 (population)")
        require_range("eps", eps, low=0.0, high=float("inf"), high_open=True)
        self.omega, self.gamma, self.scale, self.ddof, self.eps = omega, gamma, scale, ddof, eps
        self.under_scale = "equivariant" if scale == "none" else "invariant"

    @override
    def formula(self) -> Formula:
        whole, turn = "(r_i - mean_g)", "(R_ik - mean_s)"
        latex_whole, latex_turn = r"(r_i - \bar r_g)", r"(R_{i,k} - \bar R_s)"
        if self.scale == "std":
            plus, latex_plus = f" + {number(self.eps)}", f" + {latex_number(self.eps)}"
            whole, turn = f"{whole} / (std_g{plus})", f"{turn} / (std_s{plus})"
            latex_whole = rf"\frac{{r_i - \bar r_g}}{{\sigma_g{latex_plus}}}"
            latex_turn = rf"\frac{{R_{{i,k}} - \bar R_s}}{{\sigma_s{latex_plus}}}"
        weight, latex_weight = "", ""
        if self.omega != 1:
            weight, latex_weight = f"{number(self.omega)} ", rf"{latex_number(self.omega)} \, "
        return Formula(
            text=f"A_it = {whole} + {weight}{turn}, R_ik = sum_{{l>=k}} {number(self.gamma)}^(l-k) r_il",
            latex=rf"A_{{i,t}} = {latex_whole} + {latex_weight}{latex_turn}, \quad "
            rf"R_{{i,k}} = \sum_{{l \ge k}} {latex_number(self.gamma)}^{{l-k}} r_{{i,l}}",
            symbols={
                "k": "turn of step t",
                "r_il": "what the steps of turn l of row i earned",
                "s": "turns of the group that began in the state in which turn k began",
            },
            sources=("Feng et al., GiGPO, arXiv 2505.10978, equations 3 to 8",),
        )

    @override
    def estimate_steps(self, table: RolloutTable, steps: RolloutSteps) -> Tensor:
        if steps.state_S is None:
            raise ValueError(
                "advantage 'gigpo' compares turns that began in the same state, and the environment gives no states; "
                "let it set Turn.state, or choose an estimator without states"
            )
        starts_S = torch.ones_like(steps.row_S, dtype=torch.bool)
        starts_S[1:] = (steps.row_S.diff() != 0) | (steps.turn_S.diff() != 0)
        turn_S = starts_S.cumsum(0) - 1
        turns_T = self._turns(table, steps, starts_S, turn_S)
        return self._episodes(table)[steps.row_S] + self.omega * turns_T[turn_S]

    def _episodes(self, table: RolloutTable) -> Tensor:
        """[R]: the part of rows."""
        episodes_R = torch.zeros(len(table), dtype=torch.float64)
        rows = table.valid_R.nonzero().squeeze(1)
        valid = table.select(rows)
        groups = Groups.of(valid.group_R)
        silent_R = self.silent(groups, valid)[groups.index_R]
        episodes_R[rows] = torch.where(silent_R, 0.0, self._scaled(valid.rewards_R.to(torch.float64), groups))
        return episodes_R

    def _turns(self, table: RolloutTable, steps: RolloutSteps, starts_S: Tensor, turn_S: Tensor) -> Tensor:
        """[T]: the part of turns, before its weight."""
        assert steps.state_S is not None
        row_T, state_T = steps.row_S[starts_S], steps.state_S[starts_S]
        rewards_T = torch.zeros(row_T.shape[0], dtype=torch.float64).index_add_(0, turn_S, steps.rewards_S)
        gaps_T = torch.ones_like(rewards_T)
        # A turn in which the policy wrote nothing is no step here, but it takes time.
        gaps_T[:-1] = steps.turn_S[starts_S].diff().clamp(min=1).to(torch.float64)
        returns_T = returns_to_go(rewards_T, row_T, self.gamma**gaps_T)
        compared = (table.valid_R[row_T] & (state_T >= 0)).nonzero().squeeze(1)
        pairs = torch.stack([table.group_R[row_T[compared]], state_T[compared]], dim=1)
        states = Groups.of(torch.unique(pairs, dim=0, return_inverse=True)[1])
        values, turns_T = returns_T[compared], torch.zeros_like(returns_T)
        silent = states.unanimous(values, table.reward_epsilon)[states.index_R]
        turns_T[compared] = torch.where(silent, 0.0, self._scaled(values, states))
        return turns_T

    def _scaled(self, values_R: Tensor, groups: Groups) -> Tensor:
        centered_R = groups.centered(values_R)
        if self.scale == "none":
            return centered_R
        return centered_R / (groups.std(values_R, self.ddof)[groups.index_R] + self.eps)
