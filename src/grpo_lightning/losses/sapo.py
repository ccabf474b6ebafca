"""A smooth gate in place of clipping (SAPO)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch.nn.functional import logsigmoid
from typing_extensions import override

from grpo_lightning.errors import require_range
from grpo_lightning.formula import Formula, latex_number, number
from grpo_lightning.losses.base import LossInputs, LossTerms, PolicyLoss, bounded_exp


class SAPO(PolicyLoss):
    """``-(4 / tau) sigmoid(tau (rho - 1)) A`` a step, ``rho = pi_theta / pi_old`` of the step.

    ``tau`` is ``tau_positive`` where ``A > 0`` and ``tau_negative`` elsewhere. With ``p = sigmoid(tau (rho - 1))`` the
    gradient is ``-4 p (1 - p) rho A`` times that of the log-probability: at ``rho = 1`` it is REINFORCE's, and it fades the
    faster on both sides the larger ``tau`` is. The value at ``rho = 1`` is ``-2 A / tau``, so it does not compare with the
    value of other losses. A step of advantage 0 has term 0 and gradient 0.

    The paper takes the mean over rows of the mean over steps, the aggregation ``sequence_mean_token_mean``.

    Source: Gao et al. (SAPO), arXiv 2511.20347, eq. 5 and 6.

    Step metrics: ``ratio`` (``rho``); ``gate`` (``4 p (1 - p)``, from 0 to 1).

    Args:
        tau_positive: Temperature where the advantage is positive; positive.
        tau_negative: Temperature where it is not; positive.

    Example:
        >>> import torch
        >>> from grpo_lightning.losses.base import LossInputs
        >>> from grpo_lightning.losses.sapo import SAPO
        >>> inputs = LossInputs(torch.tensor([0.0, 1.0]), torch.zeros(2), torch.zeros(2), torch.tensor([1.0, 1.0]),
        ...                     torch.tensor([0, 0]), torch.tensor([2]), torch.tensor([0]))
        >>> SAPO()(inputs).terms
        tensor([-2.0000, -3.3916])
    """

    name = "sapo"
    scope = "step"
    differs: ClassVar[Mapping[str, str]] = {
        "verl": "holds the log-ratio between -20 and 20.",
        "SkyRL": "holds the log-ratio between -20 and 20.",
    }

    def __init__(self, *, tau_positive: float = 1.0, tau_negative: float = 1.05) -> None:
        for setting, value in (("tau_positive", tau_positive), ("tau_negative", tau_negative)):
            require_range(setting, value, low=0.0, high=float("inf"), low_open=True, high_open=True)
        self.tau_positive, self.tau_negative = tau_positive, tau_negative

    @override
    def formula(self) -> Formula:
        positive, negative = latex_number(self.tau_positive), latex_number(self.tau_negative)
        return Formula(
            "l_it = -(4 / tau_it) sigmoid(tau_it (rho_it - 1)) A_it, "
            f"tau_it = {number(self.tau_positive)} where A_it > 0 and {number(self.tau_negative)} elsewhere",
            r"\ell_{i,t} = -\frac{4}{\tau_{i,t}} \sigma\left(\tau_{i,t} (\rho_{i,t} - 1)\right) A_{i,t}, \quad "
            rf"\tau_{{i,t}} = \begin{{cases}} {positive} & A_{{i,t}} > 0 \\ {negative} & A_{{i,t}} \le 0 \end{{cases}}",
            {"sigmoid(x)": "1 / (1 + exp(-x))"},
            ("Gao et al. (SAPO), arXiv 2511.20347, eq. 5 and 6",),
        )

    @override
    def __call__(self, inputs: LossInputs) -> LossTerms:
        """The terms of one micro-batch: [S], normalised by nothing."""
        advantages_S = inputs.advantages_S.to(inputs.log_probs_S.dtype)
        ratio_S = bounded_exp(inputs.log_probs_S - inputs.old_log_probs_S)
        tau_S = torch.full_like(advantages_S, self.tau_negative).masked_fill(advantages_S > 0, self.tau_positive)
        # The gradient of sigmoid itself is p (1 - p), which loses its digits where p is near 1.
        log_gate_S = logsigmoid(tau_S * (ratio_S - 1.0))
        gate_S = log_gate_S.exp()
        metrics = {
            "ratio": ratio_S.detach(),
            "gate": 4.0 * gate_S.detach() * -torch.expm1(log_gate_S.detach()),
        }
        return LossTerms(-(4.0 / tau_S) * gate_S * advantages_S, metrics)
