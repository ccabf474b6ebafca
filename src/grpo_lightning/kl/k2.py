"""Half the squared log-ratio."""

from __future__ import annotations

from torch import Tensor
from typing_extensions import override

from grpo_lightning.kl.base import KLEstimator, KLInputs


class K2(KLEstimator):
    """``k2 = d^2 / 2`` a step, ``d = log pi_theta - log pi_ref``.

    Value: biased for ``KL(pi_theta || pi_ref)``, with little variance and never negative. Gradient in the loss: the
    expectation of ``d grad log pi_theta`` is the gradient of ``KL(pi_theta || pi_ref)``, exactly, as long as the
    samples are the policy's own. The estimator to choose for the loss.

    Source: Schulman, joschu.net/blog/kl-approx.html.

    Example:
        >>> from grpo_lightning.kl.k2 import K2
        >>> K2().name
        'k2'
    """

    name = "k2"

    @override
    def __call__(self, inputs: KLInputs) -> Tensor:
        return 0.5 * (inputs.log_probs_S - inputs.reference_log_probs_S) ** 2
