"""Clipping of whole rows by their geometric mean ratio (GSPO)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor
from typing_extensions import override

from grpo_lightning.errors import require_range
from grpo_lightning.formula import Formula
from grpo_lightning.losses.base import LossInputs, LossTerms, PolicyLoss, Scope, bounded_exp
from grpo_lightning.losses.clipping import clip_gain, clip_latex, clip_text

ROW_RATIO = "exp((1/|i|) sum_t log rho_it), the geometric mean of the ratios of the row's |i| steps"
"""What ``s_i`` means in an equation."""


class GSPO(PolicyLoss):
    """``-min(s A, clip(s, 1 - epsilon_low, 1 + epsilon_high) A)`` a row, ``s = exp(mean over its steps of log rho)``.

    ``rho = pi_theta / pi_old`` of a step; ``A`` is the row's advantage, the mean of its steps' where they differ. All steps
    of a row share one gradient, ``-s A / l`` times that of their log-probability (``l`` steps), or have none together. A row
    of advantage 0 has term 0 and gradient 0; a row of one step has the term of :class:`ClippedPolicyLoss`.

    The paper averages over rows, which is the aggregation ``sequence_mean_token_mean``; under ``token_mean`` a row counts
    as often as it has steps.

    ``s`` stays much nearer to 1 than a step's ratio does, so the ranges are far smaller than PPO's: with 0.2 next to
    nothing is clipped.

    Source: Zheng et al. (GSPO), arXiv 2507.18071, eq. 5 and 7, ranges of its section 5.1.

    Step metrics: ``sequence_ratio`` (``s`` of the step's row); ``clip_fraction_low`` and ``clip_fraction_high`` (1 where the
    lower or the upper bound has taken the row's gradient).

    Args:
        epsilon_low: How far ``s`` may fall below 1, from 0 to 1.
        epsilon_high: How far it may rise above 1; not negative.

    Example:
        >>> import torch
        >>> from grpo_lightning.losses.base import LossInputs
        >>> from grpo_lightning.losses.gspo import GSPO
        >>> inputs = LossInputs(torch.tensor([0.3, -0.1]), torch.zeros(2), torch.zeros(2), torch.tensor([2.0, 2.0]),
        ...                     torch.tensor([0, 0]), torch.tensor([2]), torch.tensor([0]))
        >>> GSPO(epsilon_high=0.2)(inputs).terms  # exp(0.1) = 1.1052
        tensor([-2.2103])
    """

    name = "gspo"
    scope: Scope = "sequence"
    differs: ClassVar[Mapping[str, str]] = {
        "verl": "holds log s below 10, writes it in the form of GSPO-token and always takes the mean over rows of token "
        "means; its range is the one of PPO, 0.2, unless set.",
        "SkyRL": "computes GSPO-token under the name gspo and holds log s below 10.",
    }

    def __init__(self, *, epsilon_low: float = 3e-4, epsilon_high: float = 4e-4) -> None:
        require_range("epsilon_low", epsilon_low, low=0.0, high=1.0)
        require_range("epsilon_high", epsilon_high, low=0.0, high=float("inf"), high_open=True)
        self.epsilon_low, self.epsilon_high = epsilon_low, epsilon_high

    @override
    def formula(self) -> Formula:
        low, high = 1.0 - self.epsilon_low, 1.0 + self.epsilon_high
        return Formula(
            f"l_i = -{clip_text('s_i', 'A_i', low, high)}",
            rf"\ell_i = -{clip_latex('s_i', 'A_i', low, high)}",
            {"s_i": ROW_RATIO},
            ("Zheng et al. (GSPO), arXiv 2507.18071, eq. 5 and 7",),
        )

    @override
    def __call__(self, inputs: LossInputs) -> LossTerms:
        """The terms of one micro-batch: [R], normalised by nothing."""
        ratio_R = row_ratio(inputs)
        advantages_R = inputs.row_advantages().to(ratio_R.dtype)
        clipped = clip_gain(ratio_R, advantages_R, 1.0 - self.epsilon_low, 1.0 + self.epsilon_high)
        metrics = {
            "sequence_ratio": ratio_R.detach()[inputs.row_S],
            "clip_fraction_low": clipped.low.to(ratio_R.dtype)[inputs.row_S],
            "clip_fraction_high": clipped.high.to(ratio_R.dtype)[inputs.row_S],
        }
        return LossTerms(-advantages_R * clipped.ratio, metrics)


def row_ratio(inputs: LossInputs) -> Tensor:
    """[R] with gradient: the geometric mean of ``pi_theta / pi_old`` over each row's steps, summed in float64."""
    log_ratio_S = (inputs.log_probs_S - inputs.old_log_probs_S).double()
    return bounded_exp(inputs.mean_rows(log_ratio_S).to(inputs.log_probs_S.dtype))
