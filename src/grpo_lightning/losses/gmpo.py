"""Steps clipped each, rows by their geometric mean (GMPO)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from typing_extensions import override

from grpo_lightning.errors import require_range
from grpo_lightning.formula import Formula, latex_number, number
from grpo_lightning.losses.base import LossInputs, LossTerms, PolicyLoss, bounded_exp


class GMPO(PolicyLoss):
    """``-A exp(mean over the row's steps of u)`` a row, ``u`` the clipped ``log rho``, ``rho = pi_theta / pi_old`` of a step.

    ``u = min(log rho, epsilon_high)`` where ``A > 0``, ``max(log rho, -epsilon_low)`` where ``A < 0``: a step that has gone
    far enough in the direction of the row's advantage counts as the bound and has no gradient; every other step has
    ``-A exp(mean u) / l`` times the gradient of its log-probability (``l`` steps). ``A`` is the row's advantage, the mean of
    its steps' where they differ. A row of advantage 0 has term 0 and gradient 0.

    The paper averages over rows, the aggregation ``sequence_mean_token_mean``.

    Source: Zhao et al. (GMPO), arXiv 2507.20673; the ranges are those of its released code, ``(e^-0.4, e^0.4)`` for
    the ratio.

    Step metrics: ``ratio`` (``rho``); ``sequence_ratio`` (``exp(mean u)`` of the step's row); ``clip_fraction_low`` and
    ``clip_fraction_high`` (1 where the lower or the upper bound has taken the step's gradient).

    Args:
        epsilon_low: How far the log-ratio of a step may fall below 0; not negative.
        epsilon_high: How far it may rise above 0; not negative.

    Example:
        >>> import torch
        >>> from grpo_lightning.losses.base import LossInputs
        >>> from grpo_lightning.losses.gmpo import GMPO
        >>> inputs = LossInputs(torch.tensor([0.9, -0.2]), torch.zeros(2), torch.zeros(2), torch.tensor([1.0, 1.0]),
        ...                     torch.tensor([0, 0]), torch.tensor([2]), torch.tensor([0]))
        >>> GMPO()(inputs).terms  # -exp((0.4 - 0.2) / 2)
        tensor([-1.1052])
    """

    name = "gmpo"
    scope = "sequence"
    differs: ClassVar[Mapping[str, str]] = {
        "verl": "takes the range of the log-ratio from PPO's clip (0.2 unless set), adds 1e-8 to the length, and averages "
        "over the rows of each micro-batch.",
    }

    def __init__(self, *, epsilon_low: float = 0.4, epsilon_high: float = 0.4) -> None:
        for setting, value in (("epsilon_low", epsilon_low), ("epsilon_high", epsilon_high)):
            require_range(setting, value, low=0.0, high=float("inf"), high_open=True)
        self.epsilon_low, self.epsilon_high = epsilon_low, epsilon_high

    @override
    def formula(self) -> Formula:
        low, high = latex_number(self.epsilon_low), latex_number(self.epsilon_high)
        return Formula(
            "l_i = -A_i exp((1/|i|) sum_t u_it), "
            f"u_it = min(log rho_it, {number(self.epsilon_high)}) where A_i > 0 and "
            f"max(log rho_it, -{number(self.epsilon_low)}) where A_i < 0",
            r"\ell_i = -A_i \exp\left(\frac{1}{|i|} \sum_t u_{i,t}\right), \quad u_{i,t} = \begin{cases} "
            rf"\min(\log \rho_{{i,t}}, {high}) & A_i > 0 \\ \max(\log \rho_{{i,t}}, -{low}) & A_i < 0 \end{{cases}}",
            {"|i|": "number of steps of row i"},
            ("Zhao et al. (GMPO), arXiv 2507.20673",),
        )

    @override
    def __call__(self, inputs: LossInputs) -> LossTerms:
        """The terms of one micro-batch: [R], normalised by nothing."""
        dtype, row_S = inputs.log_probs_S.dtype, inputs.row_S
        advantages_R = inputs.row_advantages().to(dtype)
        sign_S = advantages_R[row_S]
        log_ratio_S = inputs.log_probs_S - inputs.old_log_probs_S
        low_S = (sign_S < 0) & (log_ratio_S < -self.epsilon_low)
        high_S = (sign_S > 0) & (log_ratio_S > self.epsilon_high)
        limited_S = log_ratio_S.masked_fill(low_S, -self.epsilon_low).masked_fill(high_S, self.epsilon_high)
        ratio_R = bounded_exp(inputs.mean_rows(limited_S.double()).to(dtype))
        metrics = {
            "ratio": bounded_exp(log_ratio_S.detach()),
            "sequence_ratio": ratio_R.detach()[row_S],
            "clip_fraction_low": low_S.to(dtype),
            "clip_fraction_high": high_S.to(dtype),
        }
        return LossTerms(-advantages_R * ratio_R, metrics)
