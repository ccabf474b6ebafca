"""The log-ratio with a control variate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.errors import require_range
from grpo_lightning.formula import Formula, latex_number, number
from grpo_lightning.kl.base import KLEstimator, KLInputs


class K3(KLEstimator):
    """``k3 = exp(-d) - 1 + d`` a step, ``d = log pi_theta - log pi_ref``; computed with expm1.

    Value: unbiased for ``KL(pi_theta || pi_ref)`` under the policy's own samples, never negative. Summed over a row it is
    unbiased for the divergence of whole rows. ``exp(-d)`` is held far below overflow, at about 1e153 in float64 and 1e18 in
    float32.

    In the loss: the expectation of ``(1 - pi_ref / pi_theta) grad log pi_theta`` is the gradient of the *forward*
    divergence ``KL(pi_ref || pi_theta)`` of each step with its prefix, drawn by the policy, held fixed: not of what the
    value estimates. In the reward it lacks just that: the gradient is that of the divergence of whole rows, less the one
    that it has in the loss.

    Source: Schulman, joschu.net/blog/kl-approx.html. Shao et al. (DeepSeekMath), arXiv 2402.03300, eq. 4, in the loss and
    without limits.

    Args:
        log_ratio_limit: ``d`` is first clamped to at most this size, with no gradient outside. Above 0, or ``None``.
        limit: Largest value; above it the gradient is 0. Above 0, or ``None``.

    Example:
        >>> import torch
        >>> from grpo_lightning.kl.base import KLInputs
        >>> values = K3()(KLInputs(torch.tensor([-1.0, -2.0]), torch.tensor([-1.5, -1.0]), torch.zeros(2)))
        >>> [round(value, 4) for value in values.tolist()]
        [0.1065, 0.7183]
    """

    name = "k3"
    differs: ClassVar[Mapping[str, str]] = {
        "TRL": "the plain difference, which loses its digits where d is small",
        "verl": "low_var_kl or k3 clamps d to +-20 and the value to 10: log_ratio_limit=20, limit=10; older versions clamp the "
        "value only; k3+ has this value and the gradient of k2",
        "OpenRLHF": "clamps the value to 10: limit=10",
        "NeMo-RL": "clamps d and the value where kl_input_clamp_value and kl_output_clamp_value say so, 20 and 10 in examples",
        "open-instruct": "clamps d to +-40: log_ratio_limit=40",
        "slime": "k3 without limits; low_var_kl clamps the value to 10",
    }

    def __init__(self, *, log_ratio_limit: float | None = None, limit: float | None = None) -> None:
        for setting, value in (("log_ratio_limit", log_ratio_limit), ("limit", limit)):
            if value is not None:
                require_range(setting, value, low=0.0, high=float("inf"), low_open=True, high_open=True)
        self.log_ratio_limit, self.limit = log_ratio_limit, limit

    @override
    def __call__(self, inputs: KLInputs) -> Tensor:
        d_S = inputs.log_probs_S - inputs.reference_log_probs_S
        if self.log_ratio_limit is not None:
            d_S = d_S.clamp(-self.log_ratio_limit, self.log_ratio_limit)
        values_S = k3(d_S)
        return values_S if self.limit is None else values_S.clamp(max=self.limit)

    @override
    def formula(self) -> Formula:
        text, latex = "exp(-d_it) - 1 + d_it", "e^{-d_{i,t}} - 1 + d_{i,t}"
        if self.limit is not None:
            text, latex = f"min({text}, {number(self.limit)})", rf"\min({latex}, {latex_number(self.limit)})"
        d = "log pi_theta - log pi_ref"
        if self.log_ratio_limit is not None:
            d = f"clip({d}, -{number(self.log_ratio_limit)}, {number(self.log_ratio_limit)})"
        sources = ("Schulman, joschu.net/blog/kl-approx.html", "Shao et al. (DeepSeekMath), arXiv 2402.03300, eq. 4")
        return Formula(f"k_it = {text}", f"k_{{i,t}} = {latex}", {"d_it": d}, sources)


def k3(d_S: Tensor) -> Tensor:
    """[S]: ``exp(-d) - 1 + d``, with derivative ``1 - exp(-d)``; the exponential is held below overflow."""
    # exp(-d) is rounded at the size of 1, expm1(-d) at the size of d: a result of size d^2 / 2 needs the latter.
    growth_S = torch.expm1(below_overflow(-d_S.detach()))
    # So does the derivative, which autograd would take from exp(-d).
    return with_slope(growth_S + d_S.detach(), -growth_S, d_S)


def below_overflow(exponent_S: Tensor) -> Tensor:
    """[S]: ``exponent``, at most so large that the product of two exponentials still fits."""
    return exponent_S.clamp(max=math.log(torch.finfo(exponent_S.dtype).max) / 2 - 2)


def with_slope(values_S: Tensor, slopes_S: Tensor, variable_S: Tensor) -> Tensor:
    """[S]: ``values``, whose derivative by ``variable`` is ``slopes``; both without gradient of their own, and finite."""
    return values_S + slopes_S * (variable_S - variable_S.detach())
