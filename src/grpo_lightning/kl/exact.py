"""The divergence itself, summed over the vocabulary."""

from __future__ import annotations

from torch import Tensor
from typing_extensions import override

from grpo_lightning.kl.base import KLEstimator, KLInputs


class ExactKL(KLEstimator):
    """``sum_v pi_theta(v) (log pi_theta(v) - log pi_ref(v))`` a step, over the step's support.

    Value: ``KL(pi_theta || pi_ref)`` of the step, without sampling noise. Gradient in the loss: the gradient of that
    divergence. It costs a pass of the reference's head over the vocabulary wherever the policy's own is computed.

    Example:
        >>> from grpo_lightning.kl.exact import ExactKL
        >>> ExactKL().name
        'exact'
    """

    name = "exact"
    functionals = frozenset({"exact_kl"})

    @override
    def __call__(self, inputs: KLInputs) -> Tensor:
        if inputs.exact_kl_S is None:
            raise ValueError(
                "the exact divergence was not computed: the policy must be asked for the functional exact_kl"
            )
        return inputs.exact_kl_S
