"""The divergence itself, summed over the vocabulary."""

from __future__ import annotations

from torch import Tensor
from typing_extensions import override

from grpo_lightning.formula import Formula
from grpo_lightning.kl.base import KLEstimator, KLInputs


class ExactKL(KLEstimator):
    """``sum_v pi_theta(v) (log pi_theta(v) - log pi_ref(v))`` a step, over the step's support.

    Value: ``KL(pi_theta || pi_ref)`` of the step, without the noise of sampling it; summed over the policy's own rows it
    is unbiased for the divergence of whole rows. It costs a pass of the reference's head over the vocabulary wherever the
    policy's own is computed.

    In the loss: the gradient of that divergence with the prefix held fixed. Of the gradient of the divergence of whole rows
    it lacks the part through the choice of prefixes, which is just what it would give in the reward.

    Source: the definition (Kullback and Leibler, 1951).

    Example:
        >>> import torch
        >>> from grpo_lightning.kl.base import KLInputs
        >>> p, q = torch.tensor([0.5, 0.5]), torch.tensor([0.25, 0.75])
        >>> divergence = (p * (p.log() - q.log())).sum().reshape(1)
        >>> round(ExactKL()(KLInputs(p.log()[:1], q.log()[:1], p.log()[:1], divergence)).item(), 4)
        0.1438
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

    @override
    def formula(self) -> Formula:
        return Formula(
            "k_it = sum_v pi_theta(v) (log pi_theta(v) - log pi_ref(v))",
            r"k_{i,t} = \sum_v \pi_\theta(v) \log\frac{\pi_\theta(v)}{\pi_{\mathrm{ref}}(v)}",
            {"v": "what the step could choose from"},
            ("Kullback and Leibler, 1951",),
        )
