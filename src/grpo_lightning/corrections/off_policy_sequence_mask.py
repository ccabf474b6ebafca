"""Bad rows that the policy has moved away from are left out (OPSM)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.corrections.base import Correction, CorrectionInputs
from grpo_lightning.corrections.log_ratio import to_steps
from grpo_lightning.errors import require, require_range
from grpo_lightning.formula import Formula, latex_number, number


class OffPolicySequenceMask(Correction):
    """``0`` if ``A < 0`` and ``(1/l_i) sum_t log(mu / pi_theta) > delta``, else ``1``.

    ``mu`` is the policy that sampled and ``pi_theta`` the current one, so the mean holds what sampler and trainer disagree
    on as well as what the updates since have changed. Rows that the policy has come to find unlikely teach nothing more by
    being punished; rows of positive advantage are always kept. Weights are 0 or 1, normalised by nothing. With
    ``denominator="remaining"`` the aggregation counts only the steps that are left; with ``original`` a step left out
    counts as a term of 0.

    Source: DeepSeek-AI (DeepSeek-V3.2), arXiv 2512.02556, eq. 9, which keeps the original count and gives no number for
    delta; the default is slime's.

    Args:
        delta: Largest mean of ``log(mu / pi_theta)`` at which a row of negative advantage is kept, in nats; not negative.
        level: Whose advantage is asked: ``sequence``: the row's, which is the mean over its steps; ``step``: each step's
            own, as the paper's equation has it, for estimators of step advantages. The same where a row's steps share one.
        denominator: What the aggregation counts, ``original`` or ``remaining``.

    Example:
        >>> import torch
        >>> from grpo_lightning.corrections.base import CorrectionInputs
        >>> zero, row, length, A = torch.zeros(2), torch.tensor([0, 1]), torch.tensor([1, 1]), torch.tensor([-1.0, 1.0])
        >>> OffPolicySequenceMask()(CorrectionInputs(zero, zero, row, length, zero - 0.5, A)).tolist()
        [0.0, 1.0]
    """

    name = "off_policy_sequence_mask"
    differs: ClassVar[Mapping[str, str]] = {
        "slime": "measures against the policy at the start of the updates unless told to use the sampler's log-probabilities",
        "TRL": "off_policy_mask_threshold has no default (off); the same rule",
        "ms-swift": "shrinks the mask, so the count is that of denominator=remaining",
    }

    def __init__(
        self,
        *,
        delta: float = 1e-4,
        level: Literal["step", "sequence"] = "sequence",
        denominator: Literal["original", "remaining"] = "original",
    ) -> None:
        require_range("delta", delta, low=0.0, high=float("inf"), high_open=True)
        require(level in ("step", "sequence"), "level", level, "is no level", "set 'step' or 'sequence'")
        counts = ("original", "remaining")
        require(denominator in counts, "denominator", denominator, "is no count", "set 'original' or 'remaining'")
        self.delta, self.level, self.denominator = delta, level, denominator
        self.whole_update = denominator == "remaining"

    @override
    def __call__(self, inputs: CorrectionInputs) -> Tensor:
        """[S] weights 0 or 1, without gradient; normalised by nothing.

        Raises:
            ValueError: If the inputs lack the current log-probabilities or the advantages.
        """
        if inputs.log_probs_S is None or inputs.advantages_S is None:
            raise ValueError("the mask asks for the current policy's log-probabilities and for advantages")
        current_S = inputs.log_probs_S.detach().to(torch.float64)
        away_R = inputs.mean_rows(inputs.behaviour_log_probs_S.detach().to(torch.float64) - current_S) > self.delta
        advantages = inputs.advantages_S.detach().to(torch.float64)
        if self.level == "sequence":
            return to_steps(~((inputs.sum_rows(advantages) < 0) & away_R), inputs, "sequence")
        return to_steps(~((advantages < 0) & away_R[inputs.row_S]), inputs, "step")

    @override
    def formula(self) -> Formula:
        advantage, latex = ("A_i", "A_i") if self.level == "sequence" else ("A_it", "A_{i,t}")
        return Formula(
            f"c_it = 1 - 1[{advantage} < 0 and (1/l_i) sum_t log(mu / pi_theta) > {number(self.delta)}]",
            rf"c_{{i,t}} = 1 - \mathbb{{1}}\Big[{latex} < 0 \wedge \frac{{1}}{{l_i}} \sum_t \log\frac{{\mu}}{{\pi_\theta}}"
            rf" > {latex_number(self.delta)}\Big]",
            {"mu": "the policy that sampled", "l_i": "trainable steps of the row"},
            ("DeepSeek-AI (DeepSeek-V3.2), arXiv 2512.02556, eq. 9",),
        )
