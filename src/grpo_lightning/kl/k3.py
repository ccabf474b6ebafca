"""The log-ratio with a control variate."""

from __future__ import annotations

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.kl.base import KLEstimator, KLInputs


class K3(KLEstimator):
    """``k3 = exp(-d) - 1 + d`` a step, ``d = log pi_theta - log pi_ref``; computed with expm1.

    Value: unbiased for ``KL(pi_theta || pi_ref)`` under the policy's own samples, never negative. Gradient in the loss:
    the expectation of ``(1 - pi_ref / pi_theta) grad log pi_theta`` is the gradient of the *forward* divergence
    ``KL(pi_ref || pi_theta)``, not of what the value estimates. GRPO's paper uses it in the loss.

    Source: Schulman, joschu.net/blog/kl-approx.html. Shao et al. (DeepSeekMath), arXiv 2402.03300, eq. 4.

    Example:
        >>> from grpo_lightning.kl.k3 import K3
        >>> K3().name
        'k3'
    """

    name = "k3"

    @override
    def __call__(self, inputs: KLInputs) -> Tensor:
        return k3(inputs.log_probs_S - inputs.reference_log_probs_S)


def k3(d_S: Tensor) -> Tensor:
    """[S]: ``exp(-d) - 1 + d``, 0 with gradient 0 at ``d = 0``."""
    # exp(-d) is rounded at the size of 1, expm1(-d) at the size of d: a result of size d^2 / 2 needs the latter.
    return torch.expm1(-d_S) + d_S
