"""The log-ratio itself."""

from __future__ import annotations

from torch import Tensor
from typing_extensions import override

from grpo_lightning.kl.base import KLEstimator, KLInputs


class K1(KLEstimator):
    """``k1 = d`` a step, ``d = log pi_theta - log pi_ref``.

    Value: unbiased for ``KL(pi_theta || pi_ref)`` under the policy's own samples, with large variance and either
    sign. Gradient in the loss: the expectation of ``grad d`` is 0, so it adds noise and no pull towards the
    reference. Use it in the reward, where ``k1`` gives the gradient of the whole row's divergence.

    Source: Schulman, joschu.net/blog/kl-approx.html.

    Example:
        >>> from grpo_lightning.kl.k1 import K1
        >>> K1().name
        'k1'
    """

    name = "k1"

    @override
    def __call__(self, inputs: KLInputs) -> Tensor:
        return inputs.log_probs_S - inputs.reference_log_probs_S
