"""k3 weighted by the importance ratio."""

from __future__ import annotations

from torch import Tensor
from typing_extensions import override

from grpo_lightning.kl.base import KLEstimator, KLInputs
from grpo_lightning.kl.k3 import k3


class UnbiasedK3(KLEstimator):
    """``rho k3`` a step, ``rho = pi_theta / pi_old`` with its gradient, ``k3 = exp(-d) - 1 + d``.

    Value: unbiased for ``KL(pi_theta || pi_ref)`` under samples of the *old* policy. Gradient in the loss: its
    expectation under samples of the old policy is the gradient of ``KL(pi_theta || pi_ref)``, in the reverse
    direction, however far the policy has moved since. That needs the gradient of ``rho``: with a constant weight it
    would be the forward direction.

    Source: DeepSeek-AI (DeepSeek-V3.2), arXiv 2512.02556.

    Example:
        >>> from grpo_lightning.kl.k3_unbiased import UnbiasedK3
        >>> UnbiasedK3().name
        'k3_unbiased'
    """

    name = "k3_unbiased"

    @override
    def __call__(self, inputs: KLInputs) -> Tensor:
        ratio_S = (inputs.log_probs_S - inputs.old_log_probs_S).exp()
        return ratio_S * k3(inputs.log_probs_S - inputs.reference_log_probs_S)
