"""The plain policy gradient."""

from __future__ import annotations

from typing_extensions import override

from grpo_lightning.formula import Formula
from grpo_lightning.losses.base import LossInputs, LossTerms, PolicyLoss


class Reinforce(PolicyLoss):
    """``-A log pi_theta`` a step.

    There is no ratio: the gradient is the policy gradient as long as the policy that is trained is the one that sampled, so
    it belongs to one update a rollout. A step of advantage 0 has term 0 and gradient 0.

    Under ``sequence_mean_token_sum`` it is the loss of RLOO and OPO, under ``token_mean`` that of GPG.

    Source: Williams, Machine Learning 8 (1992); Ahmadian et al. (RLOO), arXiv 2402.14740; Hao et al. (OPO), arXiv
    2505.23585; Chu et al. (GPG), arXiv 2504.02546.

    Example:
        >>> import torch
        >>> from grpo_lightning.losses.base import LossInputs
        >>> from grpo_lightning.losses.reinforce import Reinforce
        >>> inputs = LossInputs(torch.tensor([-0.5, -2.0]), torch.zeros(2), torch.zeros(2), torch.tensor([1.0, -1.0]),
        ...                     torch.tensor([0, 0]), torch.tensor([2]), torch.tensor([0]))
        >>> Reinforce()(inputs).terms
        tensor([ 0.5000, -2.0000])
    """

    name = "reinforce"
    scope = "step"

    @override
    def formula(self) -> Formula:
        return Formula(
            "l_it = -A_it log pi_theta(it)",
            r"\ell_{i,t} = -A_{i,t} \log \pi_\theta(y_{i,t})",
            {},
            ("Williams, Machine Learning 8 (1992)", "Ahmadian et al. (RLOO), arXiv 2402.14740"),
        )

    @override
    def __call__(self, inputs: LossInputs) -> LossTerms:
        """The terms of one micro-batch: [S], normalised by nothing."""
        return LossTerms(-inputs.advantages_S.to(inputs.log_probs_S.dtype) * inputs.log_probs_S)
