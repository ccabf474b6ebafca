"""GSPO's row ratio with an advantage a step (GSPO-token)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from typing_extensions import override

from grpo_lightning.formula import Formula
from grpo_lightning.losses.base import LossInputs, LossTerms
from grpo_lightning.losses.clipping import clip_gain, clip_latex, clip_text
from grpo_lightning.losses.gspo import GSPO, ROW_RATIO, row_ratio


class GSPOToken(GSPO):
    """``-min(s_t A_t, clip(s_t, 1 - epsilon_low, 1 + epsilon_high) A_t)`` a step, ``s_t = sg[s] pi_theta / sg[pi_theta]``.

    ``s`` is the geometric mean of ``pi_theta / pi_old`` over the steps of the row, and ``sg`` stops the gradient: every step
    has the row's ratio as its value and its own log-probability's gradient, ``-s A_t`` times it where it is not clipped.
    Where the advantages of a row are equal, the mean of its terms is the term of :class:`~.gspo.GSPO`, and so is the
    gradient. A step of advantage 0 has term 0 and gradient 0.

    The paper takes the mean over rows of the mean over steps, the aggregation ``sequence_mean_token_mean``.

    Source: Zheng et al. (GSPO), arXiv 2507.18071, eq. 14 and 15, ranges of its section 5.1.

    Step metrics: ``sequence_ratio`` (``s`` of the step's row); ``clip_fraction_low`` and ``clip_fraction_high`` (1 where the
    lower or the upper bound has taken the gradient).

    Args:
        epsilon_low: How far ``s`` may fall below 1, from 0 to 1.
        epsilon_high: How far it may rise above 1; not negative.

    Example:
        >>> import torch
        >>> from grpo_lightning.losses.base import LossInputs
        >>> from grpo_lightning.losses.gspo_token import GSPOToken
        >>> inputs = LossInputs(torch.tensor([0.3, -0.1]), torch.zeros(2), torch.zeros(2), torch.tensor([2.0, -1.0]),
        ...                     torch.tensor([0, 0]), torch.tensor([2]), torch.tensor([0]))
        >>> GSPOToken(epsilon_high=0.2)(inputs).terms  # exp(0.1) = 1.1052
        tensor([-2.2103,  1.1052])
    """

    name = "gspo_token"
    scope = "step"
    differs: ClassVar[Mapping[str, str]] = {
        "verl": "holds log s below 10; its range is the one of PPO, 0.2, unless set.",
        "SkyRL": "calls it gspo and holds log s below 10.",
    }

    @override
    def formula(self) -> Formula:
        low, high = 1.0 - self.epsilon_low, 1.0 + self.epsilon_high
        return Formula(
            f"l_it = -{clip_text('s_it', 'A_it', low, high)}",
            rf"\ell_{{i,t}} = -{clip_latex('s_{i,t}', 'A_{i,t}', low, high)}",
            {"s_it": "sg[s_i] pi_theta(it) / sg[pi_theta(it)], sg without gradient", "s_i": ROW_RATIO},
            ("Zheng et al. (GSPO), arXiv 2507.18071, eq. 14 and 15",),
        )

    @override
    def __call__(self, inputs: LossInputs) -> LossTerms:
        """The terms of one micro-batch: [S], normalised by nothing."""
        log_probs_S = inputs.log_probs_S
        advantages_S = inputs.advantages_S.to(log_probs_S.dtype)
        value_S = row_ratio(inputs).detach()[inputs.row_S]
        ratio_S = value_S * (log_probs_S - log_probs_S.detach()).exp()
        clipped = clip_gain(ratio_S, advantages_S, 1.0 - self.epsilon_low, 1.0 + self.epsilon_high)
        metrics = {
            "sequence_ratio": value_S,
            "clip_fraction_low": clipped.low.to(value_S.dtype),
            "clip_fraction_high": clipped.high.to(value_S.dtype),
        }
        return LossTerms(-advantages_S * clipped.ratio, metrics)
