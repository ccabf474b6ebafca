"""GSPO without its preference for short rows (LUSPO)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from typing_extensions import override

from grpo_lightning.formula import Formula
from grpo_lightning.losses.base import LossInputs, LossTerms
from grpo_lightning.losses.clipping import clip_latex, clip_text
from grpo_lightning.losses.gspo import GSPO, ROW_RATIO


class LUSPO(GSPO):
    """``-l min(s A, clip(s, 1 - epsilon_low, 1 + epsilon_high) A)`` a row of ``l`` steps: GSPO's term times its length.

    ``s = exp(mean over the row's steps of log(pi_theta / pi_old))``; ``A`` is the row's advantage, the mean of its steps'
    where they differ. Every step has the gradient ``-s A`` times that of its log-probability, whatever the length of its row;
    under :class:`~.gspo.GSPO` it is divided by the length. A row of advantage 0 has term 0 and gradient 0.

    Only the mean over rows (aggregation ``sequence_mean_token_mean``) is this loss: an aggregation that counts a row once a
    step would multiply by the length a second time.

    Source: Liu et al. (LUSPO), arXiv 2602.05261, ranges of its section 5.1.

    Step metrics: those of GSPO.

    Args:
        epsilon_low: How far ``s`` may fall below 1, from 0 to 1.
        epsilon_high: How far it may rise above 1; not negative.

    Example:
        >>> import torch
        >>> from grpo_lightning.losses.base import LossInputs
        >>> from grpo_lightning.losses.luspo import LUSPO
        >>> inputs = LossInputs(torch.tensor([0.3, -0.1]), torch.zeros(2), torch.zeros(2), torch.tensor([2.0, 2.0]),
        ...                     torch.tensor([0, 0]), torch.tensor([2]), torch.tensor([0]))
        >>> LUSPO(epsilon_high=0.2)(inputs).terms  # 2 steps, exp(0.1) = 1.1052
        tensor([-4.4207])
    """

    name = "luspo"
    aggregations = frozenset({"sequence_mean_token_mean"})
    why_aggregations = "its term already holds the row's length: under a sum over steps the length would weigh twice"
    differs: ClassVar[Mapping[str, str]] = {
        "TRL": "loss_type luspo is this only with importance_sampling_level sequence; with its default, token, it sums PPO's "
        "clipped terms over the row's steps.",
    }

    def __init__(self, *, epsilon_low: float = 2e-3, epsilon_high: float = 2.5e-3) -> None:
        super().__init__(epsilon_low=epsilon_low, epsilon_high=epsilon_high)

    @override
    def formula(self) -> Formula:
        low, high = 1.0 - self.epsilon_low, 1.0 + self.epsilon_high
        return Formula(
            f"l_i = -|i| {clip_text('s_i', 'A_i', low, high)}",
            rf"\ell_i = -|i| {clip_latex('s_i', 'A_i', low, high)}",
            {"|i|": "number of steps of row i", "s_i": ROW_RATIO},
            ("Liu et al. (LUSPO), arXiv 2602.05261",),
        )

    @override
    def __call__(self, inputs: LossInputs) -> LossTerms:
        """The terms of one micro-batch: [R], normalised by nothing."""
        result = super().__call__(inputs)
        return LossTerms(inputs.lengths_R * result.terms, result.step_metrics)
