"""REINFORCE with a smooth weight of the whole row's ratio (VESPO)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from typing_extensions import override

from grpo_lightning.errors import require_range
from grpo_lightning.formula import Formula, latex_number, number
from grpo_lightning.losses.base import LossInputs, LossTerms, PolicyLoss


class VESPO(PolicyLoss):
    """``-sg[phi(w)] A log pi_theta`` a step, ``phi(w) = w^k exp(lambda (1 - w))``, ``w = pi_theta(y) / mu(y)`` of the row.

    ``mu`` is the policy that sampled, ``w`` the product of ``pi_theta / mu`` over all steps of the row (not their mean), and
    ``sg`` stops the gradient. ``k`` and ``lambda`` go by the sign of the step's advantage. ``phi`` is bounded, 1 at ``w = 1``
    and 0 in both limits, so rows that are far from the sampler fade out: ``k`` says how fast for ``w < 1``, ``lambda`` for
    ``w > 1``. It is computed from ``log w``, so it needs no clamp. A step of advantage 0 has term 0 and gradient 0.

    It weighs against the sampler itself, so it takes no correction.

    Source: Shen et al. (VESPO), arXiv 2602.10693, eq. 20; ``k`` and ``lambda`` are its ``c1`` and ``c2``.

    Step metrics: ``weight`` (``phi(w)`` of the step's row, by the sign of its advantage).

    Args:
        k_positive: ``k`` where the advantage is not negative; positive. From 1 on the paper bounds the variance.
        lambda_positive: ``lambda`` there; positive.
        k_negative: ``k`` where the advantage is negative; positive.
        lambda_negative: ``lambda`` there; positive.

    Example:
        >>> import torch
        >>> from grpo_lightning.losses.base import LossInputs
        >>> from grpo_lightning.losses.vespo import VESPO
        >>> inputs = LossInputs(torch.tensor([-1.0, -1.0]), torch.zeros(2), torch.tensor([-0.5, -1.0]), torch.ones(2),
        ...                     torch.tensor([0, 0]), torch.tensor([2]), torch.tensor([0]))
        >>> VESPO()(inputs).terms  # w = exp(-0.5) = 0.6065
        tensor([1.1977, 1.1977])
    """

    name = "vespo"
    scope = "step"
    weighs_sampler = True
    differs: ClassVar[Mapping[str, str]] = {
        "TRL": "w is pi_theta / pi_old, times pi_old / mu only where its correction for the sampler is on; logarithms of steps "
        "and of w are held between about -18.4 and 20. The sign of A = 0 counts as positive, as here.",
        "verl": "the authors' recipe: as TRL, with limits of -20 and 20.",
    }

    def __init__(
        self,
        *,
        k_positive: float = 2.0,
        lambda_positive: float = 3.0,
        k_negative: float = 3.0,
        lambda_negative: float = 2.0,
    ) -> None:
        for setting, value in (
            ("k_positive", k_positive),
            ("lambda_positive", lambda_positive),
            ("k_negative", k_negative),
            ("lambda_negative", lambda_negative),
        ):
            require_range(setting, value, low=0.0, high=float("inf"), low_open=True, high_open=True)
        self.k_positive, self.lambda_positive = k_positive, lambda_positive
        self.k_negative, self.lambda_negative = k_negative, lambda_negative

    @override
    def formula(self) -> Formula:
        pairs = ((self.k_positive, self.lambda_positive), (self.k_negative, self.lambda_negative))
        (plus, minus), (latex_plus, latex_minus) = (
            [f"({number(k)}, {number(rate)})" for k, rate in pairs],
            [f"({latex_number(k)}, {latex_number(rate)})" for k, rate in pairs],
        )
        return Formula(
            "l_it = -sg[w_i^k exp(lambda (1 - w_i))] A_it log pi_theta(it), "
            f"(k, lambda) = {plus} where A_it >= 0 and {minus} where A_it < 0",
            r"\ell_{i,t} = -\operatorname{sg}\left[w_i^k e^{\lambda (1 - w_i)}\right] A_{i,t} \log \pi_\theta(y_{i,t}), \quad "
            rf"(k, \lambda) = \begin{{cases}} {latex_plus} & A_{{i,t}} \ge 0 \\ {latex_minus} & A_{{i,t}} < 0 \end{{cases}}",
            {"w_i": "prod_t pi_theta(it) / mu(it)", "mu": "the policy that sampled", "sg": "without gradient"},
            ("Shen et al. (VESPO), arXiv 2602.10693, eq. 20",),
        )

    @override
    def __call__(self, inputs: LossInputs) -> LossTerms:
        """The terms of one micro-batch: [S], normalised by nothing."""
        advantages_S = inputs.advantages_S.to(inputs.log_probs_S.dtype)
        log_ratio_S = (inputs.log_probs_S.detach() - inputs.behaviour_log_probs_S).double()
        log_w_S = inputs.sum_rows(log_ratio_S)[inputs.row_S]
        negative_S = advantages_S < 0
        k_S = torch.full_like(log_w_S, self.k_positive).masked_fill(negative_S, self.k_negative)
        lambda_S = torch.full_like(log_w_S, self.lambda_positive).masked_fill(negative_S, self.lambda_negative)
        # expm1(log w) may be infinite, and then phi is 0.
        weight_S = (k_S * log_w_S - lambda_S * torch.expm1(log_w_S)).exp().to(advantages_S.dtype)
        return LossTerms(-weight_S * advantages_S * inputs.log_probs_S, {"weight": weight_S})
