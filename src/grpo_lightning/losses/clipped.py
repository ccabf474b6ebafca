"""The clipped surrogate of PPO and GRPO, with the second bound of dual clip."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from typing_extensions import override

from grpo_lightning.errors import require_range
from grpo_lightning.formula import Formula, latex_number, number
from grpo_lightning.losses.base import LossInputs, LossTerms, PolicyLoss, bounded_exp
from grpo_lightning.losses.clipping import clip_gain, clip_latex, clip_text


class ClippedPolicyLoss(PolicyLoss):
    """``-min(rho A, clip(rho, 1 - epsilon_low, 1 + epsilon_high) A)`` a step, ``rho = pi_theta / pi_old`` of the step.

    A step has no gradient where the policy has already gone far enough in the direction of its advantage: ``A > 0``
    and ``rho > 1 + epsilon_high``, or ``A < 0`` and ``rho < 1 - epsilon_low``. Elsewhere its gradient is ``-rho A``
    times that of the log-probability. A step of advantage 0 has term 0 and gradient 0.

    With ``dual_clip`` the term of a step with ``A < 0`` is at most ``-dual_clip A``: where ``rho > dual_clip`` it is that,
    without a gradient.

    Source: Schulman et al., arXiv 1707.06347, eq. 7, with one range; Yu et al. (DAPO), arXiv 2503.14476, with two
    (0.2 and 0.28); Ye et al., arXiv 1912.09729, dual clip.

    Step metrics: ``ratio`` (``rho``); ``clip_fraction_low`` and ``clip_fraction_high`` (1 where the lower or the upper
    bound has taken the gradient); with ``dual_clip`` also ``clip_fraction_dual`` (1 where that one has).

    Args:
        epsilon_low: How far the ratio may fall below 1, from 0 to 1.
        epsilon_high: How far it may rise above 1; not negative.
        dual_clip: Largest ratio that counts where the advantage is negative, above 1; ``None`` for no such bound.
        log_ratio_limit: Hold ``log rho`` between this and its negative, without a gradient beyond; positive. ``None`` for
            no limit: the ratio is then held far below overflow and its gradient goes on.

    Example:
        >>> import torch
        >>> from grpo_lightning.losses.base import LossInputs
        >>> from grpo_lightning.losses.clipped import ClippedPolicyLoss
        >>> inputs = LossInputs(torch.tensor([0.5, -0.5]), torch.zeros(2), torch.zeros(2), torch.tensor([1.0, 1.0]),
        ...                     torch.tensor([0, 0]), torch.tensor([2]), torch.tensor([0]))
        >>> ClippedPolicyLoss(epsilon_high=0.28)(inputs).terms
        tensor([-1.2800, -0.6065])
    """

    name = "clipped"
    scope = "step"
    differs: ClassVar[Mapping[str, str]] = {
        "verl": "holds the log-ratio between -20 and 20 (log_ratio_limit=20) and always has a dual clip, 3 unless set "
        "(dual_clip=3).",
        "TRL": "its delta holds the ratio from above for both signs of the advantage. For delta >= 1 + epsilon_high that "
        "is dual_clip=delta; a smaller delta bounds positive advantages at delta.",
        "SkyRL": "holds the log-ratio between -20 and 20 (log_ratio_limit=20).",
    }

    def __init__(
        self,
        *,
        epsilon_low: float = 0.2,
        epsilon_high: float = 0.2,
        dual_clip: float | None = None,
        log_ratio_limit: float | None = None,
    ) -> None:
        require_range("epsilon_low", epsilon_low, low=0.0, high=1.0)
        require_range("epsilon_high", epsilon_high, low=0.0, high=float("inf"), high_open=True)
        for setting, value, low in (("dual_clip", dual_clip, 1.0), ("log_ratio_limit", log_ratio_limit, 0.0)):
            if value is not None:
                require_range(setting, value, low=low, high=float("inf"), low_open=True, high_open=True)
        self.epsilon_low, self.epsilon_high = epsilon_low, epsilon_high
        self.dual_clip, self.log_ratio_limit = dual_clip, log_ratio_limit

    @override
    def formula(self) -> Formula:
        low, high = 1.0 - self.epsilon_low, 1.0 + self.epsilon_high
        text = f"-{clip_text('rho_it', 'A_it', low, high)}"
        latex = "-" + clip_latex(r"\rho_{i,t}", "A_{i,t}", low, high)
        sources = ["Schulman et al., arXiv 1707.06347, eq. 7"]
        if self.epsilon_low != self.epsilon_high:
            sources.append("Yu et al. (DAPO), arXiv 2503.14476")
        if self.dual_clip is not None:
            text = f"{text} where A_it >= 0, min({text}, -{number(self.dual_clip)} A_it) where A_it < 0"
            capped = rf"\min\left({latex}, -{latex_number(self.dual_clip)} A_{{i,t}}\right)"
            latex = rf"\begin{{cases}} {latex} & A_{{i,t}} \ge 0 \\ {capped} & A_{{i,t}} < 0 \end{{cases}}"
            sources.append("Ye et al., arXiv 1912.09729")
        symbols = {}
        if self.log_ratio_limit is not None:
            limit = number(self.log_ratio_limit)
            symbols["rho_it"] = f"exp(clip(log pi_theta(it) - log pi_old(it), -{limit}, {limit}))"
        return Formula(f"l_it = {text}", rf"\ell_{{i,t}} = {latex}", symbols, tuple(sources))

    @override
    def __call__(self, inputs: LossInputs) -> LossTerms:
        """The terms of one micro-batch: [S], normalised by nothing."""
        advantages_S = inputs.advantages_S.to(inputs.log_probs_S.dtype)
        log_ratio_S = inputs.log_probs_S - inputs.old_log_probs_S
        if self.log_ratio_limit is not None:
            log_ratio_S = log_ratio_S.clamp(-self.log_ratio_limit, self.log_ratio_limit)
        ratio_S = bounded_exp(log_ratio_S)
        clipped = clip_gain(ratio_S, advantages_S, 1.0 - self.epsilon_low, 1.0 + self.epsilon_high)
        limited_S = clipped.ratio
        metrics = {
            "ratio": ratio_S.detach(),
            "clip_fraction_low": clipped.low.to(ratio_S.dtype),
            "clip_fraction_high": clipped.high.to(ratio_S.dtype),
        }
        if self.dual_clip is not None:
            dual_S = (advantages_S < 0) & (ratio_S > self.dual_clip)
            limited_S = limited_S.masked_fill(dual_S, self.dual_clip)
            metrics["clip_fraction_dual"] = dual_S.to(ratio_S.dtype)
        return LossTerms(-advantages_S * limited_S, metrics)
