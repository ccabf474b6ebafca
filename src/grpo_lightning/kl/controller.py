"""A KL weight that keeps the divergence near a target."""

from __future__ import annotations

import math
from typing import Any

from grpo_lightning.errors import NonFiniteError, require_range
from grpo_lightning.formula import Formula, latex_number, number


class AdaptiveKL:
    """``weight <- weight (1 + clip(kl / target - 1, -clip, clip) rows / horizon)`` after each update of the policy.

    ``kl`` is the mean over rows of the divergence of a whole row, in nats. The weight grows while it is above the target and
    shrinks while it is below; it stays positive. ``rows`` beyond ``horizon`` count as ``horizon``.

    Source: Ziegler et al., arXiv 1909.08593, section 2.2, whose ``K_beta`` (0.1) is ``rows / horizon`` here, as in the
    paper's code, where ``horizon`` is 10000 episodes.

    Args:
        weight: Weight before the first update, above 0.
        target: Divergence of a row that is aimed at, above 0, in nats.
        horizon: Rows over which a constant excess changes the weight by a factor of about ``exp(clip)``; at least 1.
        clip: Largest relative excess that is acted on, above 0 and below 1.

    Example:
        >>> controller = AdaptiveKL(weight=0.1, target=6.0, horizon=1000)
        >>> controller.update(kl=6.6, rows=500)
        >>> round(controller.weight, 6)
        0.105
    """

    def __init__(self, *, weight: float, target: float, horizon: int = 10000, clip: float = 0.2) -> None:
        require_range("weight", weight, low=0.0, high=math.inf, low_open=True, high_open=True)
        require_range("target", target, low=0.0, high=math.inf, low_open=True, high_open=True)
        require_range("horizon", horizon, low=1, high=math.inf, high_open=True)
        require_range("clip", clip, low=0.0, high=1.0, low_open=True, high_open=True)
        self.weight, self.target, self.horizon, self.clip = weight, target, horizon, clip

    def update(self, kl: float, rows: int) -> None:
        """Take in what was measured since the last call.

        Args:
            kl: Mean over rows, on all ranks, of the sum over a row's steps of the divergence.
            rows: How many rows those were, on all ranks.

        Raises:
            NonFiniteError: If ``kl`` is not a number.
        """
        if math.isnan(kl):
            raise NonFiniteError("the divergence that the KL weight is adapted to is not a number")
        excess = min(max(kl / self.target - 1.0, -self.clip), self.clip)
        self.weight *= 1.0 + excess * min(rows / self.horizon, 1.0)

    def formula(self) -> Formula:
        """The rule as an equation."""
        clip, target, horizon = self.clip, self.target, self.horizon
        band = rf"-{latex_number(clip)}, {latex_number(clip)}"
        return Formula(
            f"beta <- beta (1 + clip(KL / {number(target)} - 1, -{number(clip)}, {number(clip)}) rows / {horizon})",
            rf"\beta \leftarrow \beta \Big(1 + \operatorname{{clip}}\big(\tfrac{{KL}}{{{latex_number(target)}}} - 1,"
            rf" {band}\big) \tfrac{{n}}{{{horizon}}}\Big)",
            {"KL": "mean over rows of a row's divergence, in nats", "rows": "rows measured"},
            ("Ziegler et al., arXiv 1909.08593, section 2.2",),
        )

    def state_dict(self) -> dict[str, Any]:
        """The weight."""
        return {"weight": self.weight}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what :meth:`state_dict` returned."""
        self.weight = float(state["weight"])
