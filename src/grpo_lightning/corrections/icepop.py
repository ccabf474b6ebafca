"""Importance weights inside a band, nothing outside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.corrections.base import Correction, CorrectionInputs
from grpo_lightning.corrections.log_ratio import log_kappa, to_steps
from grpo_lightning.errors import require, require_range
from grpo_lightning.formula import Formula, latex_number, number


class IcePop(Correction):
    """``kappa 1[alpha <= kappa <= beta]`` a step, ``kappa = pi_old / mu``; or of the product of ``kappa`` over the row's steps.

    ``mu`` is the policy that sampled. A step on which sampler and trainer disagree too much is left out; the others weigh
    as their importance ratio says. Weights are normalised by nothing. With ``denominator="remaining"`` the aggregation
    counts only the steps that are left; with ``original`` a step left out counts as a term of 0.

    Source: Ling Team (Ring-1T), arXiv 2510.18855: steps, alpha 0.5 and beta 5, the original count.

    Args:
        alpha: Smallest ratio that is kept, from 0 to 1.
        beta: Largest ratio that is kept; at least 1.
        level: ``step``: each step by its own ratio; ``sequence``: all steps of a row by the product of their ratios.
        denominator: What the aggregation counts, ``original`` or ``remaining``.

    Example:
        >>> import torch
        >>> from grpo_lightning.corrections.base import CorrectionInputs
        >>> old, mu = torch.tensor([0.3, 0.6, 0.1]).log(), torch.tensor([0.3, 0.1, 0.125]).log()
        >>> inputs = CorrectionInputs(old, mu, row_S=torch.tensor([0, 0, 1]), lengths_R=torch.tensor([2, 1]))
        >>> [round(weight, 6) for weight in IcePop()(inputs).tolist()]
        [1.0, 0.0, 0.8]
    """

    name = "icepop"
    differs: ClassVar[Mapping[str, str]] = {
        "verl": "a threshold written lower_upper; clamps log kappa to +-20 first; the count stays the original one",
        "OpenRLHF": "the same band, [0.5, 5] by default",
        "TRL": "token_mask, and sequence_mask by default: no lower bound unless one is set, upper bound 3 by default",
        "SkyRL": "rollout_is is this weight with REINFORCE in place of the clipped surrogate",
        "ms-swift": "token_mask has no lower bound; its sequence_mask keeps the steps' own ratios and drops the row",
    }

    def __init__(
        self,
        *,
        alpha: float = 0.5,
        beta: float = 5.0,
        level: Literal["step", "sequence"] = "step",
        denominator: Literal["original", "remaining"] = "original",
    ) -> None:
        require_range("alpha", alpha, low=0.0, high=1.0)
        require_range("beta", beta, low=1.0, high=float("inf"), high_open=True)
        require(level in ("step", "sequence"), "level", level, "is no level", "set 'step' or 'sequence'")
        counts = ("original", "remaining")
        require(denominator in counts, "denominator", denominator, "is no count", "set 'original' or 'remaining'")
        self.alpha, self.beta, self.level, self.denominator = alpha, beta, level, denominator
        self.whole_update = denominator == "remaining"

    @override
    def __call__(self, inputs: CorrectionInputs) -> Tensor:
        """[S] weights, without gradient: 0, or between ``alpha`` and ``beta``; normalised by nothing."""
        ratio = log_kappa(inputs, self.level).exp()
        return to_steps(torch.where((ratio >= self.alpha) & (ratio <= self.beta), ratio, 0.0), inputs, self.level)

    @override
    def formula(self) -> Formula:
        rows = self.level == "sequence"
        ratio, latex = ("kappa_i", r"\kappa_i") if rows else ("kappa_it", r"\kappa_{i,t}")
        low, high = number(self.alpha), number(self.beta)
        band = rf"{latex_number(self.alpha)} \le {latex} \le {latex_number(self.beta)}"
        kappa = "pi_old / mu, constant" + (", multiplied over the row's steps" if rows else "")
        return Formula(
            f"c_it = {ratio} 1[{low} <= {ratio} <= {high}]",
            rf"c_{{i,t}} = {latex}\, \mathbb{{1}}[{band}]",
            {"kappa": kappa, "mu": "the policy that sampled"},
            ("Ling Team (Ring-1T), arXiv 2510.18855",),
        )
