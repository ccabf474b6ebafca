"""Importance weights between sampler and trainer, capped."""

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


class TruncatedImportance(Correction):
    """``max(min(kappa, cap), floor)`` a step, ``kappa = pi_old / mu``; or of the product of ``kappa`` over the row's steps.

    ``mu`` is the policy that sampled. Steps that the sampler drew too often are scaled down, to ``floor`` at least, those
    that it drew too rarely up, to ``cap`` at most. Where sampler and trainer agree the weight is 1. Weights leave every
    count of steps and rows as it is.

    With ``normalise`` the weights are divided by their mean over the update on all ranks, after the cap: over its steps, or
    over its rows for ``level="sequence"``. They may then exceed ``cap``. Weights that are all 0 stay 0.

    Source: Yao et al., fengyao.notion.site/off-policy-rl, for ``step``; Liu, Li et al.,
    richardli.xyz/rl-collapse, for ``sequence``. Neither has a floor.

    Args:
        cap: Largest weight before ``normalise``; at least 1, so that agreeing policies keep weight 1.
        level: ``step``: each step by its own ratio; ``sequence``: all steps of a row by the product of their ratios.
        floor: Smallest weight before ``normalise``, from 0 to 1.
        normalise: Divide the weights by their mean over the update.

    Example:
        >>> import torch
        >>> from grpo_lightning.corrections.base import CorrectionInputs
        >>> old, mu = torch.tensor([0.3, 0.9, 0.2]).log(), torch.tensor([0.3, 0.3, 0.4]).log()
        >>> inputs = CorrectionInputs(old, mu, row_S=torch.tensor([0, 0, 1]), lengths_R=torch.tensor([2, 1]))
        >>> [round(weight, 6) for weight in TruncatedImportance(cap=2.0)(inputs).tolist()]
        [1.0, 2.0, 0.5]
    """

    name = "truncated_importance"
    differs: ClassVar[Mapping[str, str]] = {
        "verl": "clamps log kappa (of a row: its sum) to +-20 first, which no cap below 4.8e8 sees; rollout_is_batch_normalize "
        "is normalise, with the mean taken over each batch that it is given",
        "OpenRLHF": "tis clamps both sides, [0.5, 5] by default: floor=0.5, cap=5",
        "TRL": "token_truncate and sequence_truncate with cap 3 by default and a floor where one is set; its default mode "
        "is sequence_mask, which is icepop at the level of rows without a lower bound",
        "open-instruct": "clamps log kappa to +-10 first; cap 2 by default",
    }

    def __init__(
        self,
        *,
        cap: float = 2.0,
        level: Literal["step", "sequence"] = "step",
        floor: float = 0.0,
        normalise: bool = False,
    ) -> None:
        require_range("cap", cap, low=1.0, high=float("inf"), high_open=True)
        require(level in ("step", "sequence"), "level", level, "is no level", "set 'step' or 'sequence'")
        require_range("floor", floor, low=0.0, high=1.0)
        self.cap, self.level, self.floor, self.normalise = cap, level, floor, normalise
        self.whole_update = normalise

    @override
    def __call__(self, inputs: CorrectionInputs) -> Tensor:
        """[S] weights, without gradient; between ``floor`` and ``cap``, or with ``normalise`` of mean 1 over the update."""
        weights = log_kappa(inputs, self.level).exp().clamp(min=self.floor, max=self.cap)
        if self.normalise:
            mean = weights.mean()
            weights = weights / torch.where(mean > 0, mean, 1.0)
        return to_steps(weights, inputs, self.level)

    @override
    def formula(self) -> Formula:
        rows = self.level == "sequence"
        ratio, latex = ("prod_t kappa_it", r"\prod_t \kappa_{i,t}") if rows else ("kappa_it", r"\kappa_{i,t}")
        text, tex = f"min({ratio}, {number(self.cap)})", rf"\min({latex}, {latex_number(self.cap)})"
        if self.floor > 0:
            text = f"clip({ratio}, {number(self.floor)}, {number(self.cap)})"
            tex = rf"\operatorname{{clip}}({latex}, {latex_number(self.floor)}, {latex_number(self.cap)})"
        symbols = {"kappa": "pi_old / mu, constant", "mu": "the policy that sampled"}
        if self.normalise:
            text, tex = f"{text} / mean_u", rf"{tex} / \bar w"
            symbols["mean_u"] = f"mean of the numerator over the update's {'rows' if rows else 'steps'} on all ranks"
        source = (
            "Liu, Li et al., richardli.xyz/rl-collapse" if rows else "Yao et al., fengyao.notion.site/off-policy-rl"
        )
        return Formula(f"c_it = {text}", f"c_{{i,t}} = {tex}", symbols, (source,))
