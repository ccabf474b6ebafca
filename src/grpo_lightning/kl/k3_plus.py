"""The value of k3 with the gradient of k2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor
from typing_extensions import override

from grpo_lightning.formula import Formula
from grpo_lightning.kl.base import KLEstimator, KLInputs
from grpo_lightning.kl.k3 import k3, with_slope


class K3Plus(KLEstimator):
    """Value ``exp(-d) - 1 + d``, derivative that of ``d^2 / 2``, a step; ``d = log pi_theta - log pi_ref``.

    Value: that of k3, unbiased for ``KL(pi_theta || pi_ref)`` under the policy's own samples and never negative. In the
    loss: the expectation of ``d grad log pi_theta`` is the gradient of ``KL(pi_theta || pi_ref)`` of each step with its
    prefix held fixed, as for k2: what is logged is the estimate with little variance, what trains is the right direction.
    In the reward it is k3.

    Source: verl's documentation, where it is ``k3+``.

    Example:
        >>> import torch
        >>> from grpo_lightning.kl.base import KLInputs
        >>> log_probs = torch.tensor([-2.0], requires_grad=True)
        >>> value = K3Plus()(KLInputs(log_probs, torch.tensor([-1.0]), torch.zeros(1)))
        >>> value.sum().backward(); round(value.item(), 4), log_probs.grad.tolist()
        (0.7183, [-1.0])
    """

    name = "k3_plus"
    differs: ClassVar[Mapping[str, str]] = {"verl": "k3+ clamps d to +-20 and the value to 10"}

    @override
    def __call__(self, inputs: KLInputs) -> Tensor:
        d_S = inputs.log_probs_S - inputs.reference_log_probs_S
        return with_slope(k3(d_S).detach(), d_S.detach(), d_S)

    @override
    def formula(self) -> Formula:
        return Formula(
            "k_it = sg[exp(-d_it) - 1 + d_it] + d_it^2 / 2 - sg[d_it^2 / 2]",
            r"k_{i,t} = \operatorname{sg}[e^{-d_{i,t}} - 1 + d_{i,t}] "
            r"+ \tfrac12 d_{i,t}^2 - \operatorname{sg}[\tfrac12 d_{i,t}^2]",
            {"d_it": "log pi_theta - log pi_ref"},
            ("Schulman, joschu.net/blog/kl-approx.html",),
        )
