"""Steps that would take a row still further from its sampler are left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.corrections.base import Correction, CorrectionInputs
from grpo_lightning.corrections.log_ratio import log_kappa, to_steps
from grpo_lightning.errors import require, require_range
from grpo_lightning.formula import Formula, latex_number, number


class TVMask(Correction):
    """``0`` if ``sign(log kappa_it) A_it > 0`` and ``(1/l_i) sum_t |kappa_it - 1| > limit``, else ``1``.

    ``kappa`` is the ratio of ``pi_old``, or of the current policy, to ``mu``, the policy that sampled. The mean of
    ``|kappa - 1|`` over the row estimates twice its total variation distance from the sampler. In a row beyond the limit
    only those steps are kept whose gradient takes ``kappa`` back towards 1; steps with ``kappa = 1`` or ``A = 0`` are kept.
    Weights are 0 or 1, normalised by nothing. With ``denominator="remaining"`` the aggregation counts only the steps that
    are left; with ``original`` a step left out counts as a term of 0. ``log kappa`` above 700 counts as 700.

    Source: the alignment rule of VACO (Honari et al., arXiv 2603.01365), with the divergence taken by row, as
    open-instruct's first version of it has it.

    Args:
        limit: Largest mean of ``|kappa - 1|`` of a row from which nothing is left out; above 0.
        policy: Whose ratio to the sampler is measured: ``old``, the policy at the start of the rollout's updates, or
            ``current``.
        denominator: What the aggregation counts, ``original`` or ``remaining``.

    Example:
        >>> import torch
        >>> from grpo_lightning.corrections.base import CorrectionInputs
        >>> old, mu, A = torch.tensor([0.8, 0.1]).log(), torch.tensor([0.2, 0.4]).log(), torch.tensor([1.0, 1.0])
        >>> inputs = CorrectionInputs(old, mu, torch.tensor([0, 0]), torch.tensor([2]), old, A)
        >>> TVMask(limit=0.5)(inputs).tolist(), TVMask(limit=2.0)(inputs).tolist()
        ([0.0, 1.0], [1.0, 1.0])
    """

    name = "tv_mask"
    example: ClassVar[Mapping[str, Any]] = {"limit": 0.2}
    differs: ClassVar[Mapping[str, str]] = {
        "open-instruct": "the first version has this rule with log kappa clamped to +-10 and multiplies by the capped ratio "
        "(a product with truncated_importance here); later ones threshold the two-outcome divergence of each step",
    }

    def __init__(
        self,
        *,
        limit: float,
        policy: Literal["old", "current"] = "old",
        denominator: Literal["original", "remaining"] = "original",
    ) -> None:
        require_range("limit", limit, low=0.0, high=float("inf"), low_open=True, high_open=True)
        require(policy in ("old", "current"), "policy", policy, "is no policy here", "set 'old' or 'current'")
        counts = ("original", "remaining")
        require(denominator in counts, "denominator", denominator, "is no count", "set 'original' or 'remaining'")
        self.limit, self.policy, self.denominator = limit, policy, denominator
        self.whole_update = denominator == "remaining"

    @override
    def __call__(self, inputs: CorrectionInputs) -> Tensor:
        """[S] weights 0 or 1, without gradient; normalised by nothing.

        Raises:
            ValueError: If the inputs lack the advantages, or the current log-probabilities where ``policy`` asks for them.
        """
        if inputs.advantages_S is None:
            raise ValueError("the mask asks for advantages")
        log_kappa_S = self._log_kappa(inputs)
        distance_R = inputs.mean_rows(torch.expm1(log_kappa_S.clamp(max=700.0)).abs())
        outwards_S = log_kappa_S.sign() * inputs.advantages_S.detach().to(torch.float64).sign() > 0
        return to_steps(~(outwards_S & (distance_R > self.limit)[inputs.row_S]), inputs, "step")

    def _log_kappa(self, inputs: CorrectionInputs) -> Tensor:
        if self.policy == "old":
            return log_kappa(inputs)
        if inputs.log_probs_S is None:
            raise ValueError("the mask asks for the current policy's log-probabilities")
        return inputs.log_probs_S.detach().to(torch.float64) - inputs.behaviour_log_probs_S.detach().to(torch.float64)

    @override
    def formula(self) -> Formula:
        policy = "pi_old" if self.policy == "old" else "pi_theta"
        return Formula(
            f"c_it = 1 - 1[sign(log kappa_it) A_it > 0 and (1/l_i) sum_t |kappa_it - 1| > {number(self.limit)}]",
            r"c_{i,t} = 1 - \mathbb{1}\Big[\operatorname{sign}(\log \kappa_{i,t}) A_{i,t} > 0 \wedge "
            rf"\frac{{1}}{{l_i}} \sum_t |\kappa_{{i,t}} - 1| > {latex_number(self.limit)}\Big]",
            {"kappa": f"{policy} / mu, constant", "mu": "the policy that sampled", "l_i": "trainable steps of the row"},
            ("Honari et al. (VACO), arXiv 2603.01365",),
        )
