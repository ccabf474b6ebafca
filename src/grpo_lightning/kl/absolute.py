"""The magnitude of the log-ratio."""

from __future__ import annotations

from torch import Tensor
from typing_extensions import override

from grpo_lightning.kl.base import KLEstimator, KLInputs


class AbsoluteKL(KLEstimator):
    """``abs = |d|`` a step, ``d = log pi_theta - log pi_ref``.

    Value: not an estimate of ``KL``; never negative, 0 where the policies agree. Gradient in the loss: the
    expectation of ``sign(d) grad log pi_theta`` is twice the gradient of the total variation distance ``1/2 sum_v
    |pi_theta - pi_ref|``; it does not fade as the policies come close.

    Example:
        >>> from grpo_lightning.kl.absolute import AbsoluteKL
        >>> AbsoluteKL().name
        'abs'
    """

    name = "abs"

    @override
    def __call__(self, inputs: KLInputs) -> Tensor:
        return (inputs.log_probs_S - inputs.reference_log_probs_S).abs()
