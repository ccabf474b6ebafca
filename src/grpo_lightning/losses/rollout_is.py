"""REINFORCE weighed against the sampler, without the steps it is far from."""

from __future__ import annotations

from typing_extensions import override

from grpo_lightning.errors import require_range
from grpo_lightning.formula import Formula, latex_number, number
from grpo_lightning.losses.base import LossInputs, LossTerms, PolicyLoss, bounded_exp


class RolloutIS(PolicyLoss):
    """``-sg[rho_mu 1(1 - epsilon_low < rho_mu < 1 + epsilon_high)] A log pi_theta`` a step, ``rho_mu = pi_theta / mu``.

    ``mu`` is the policy that sampled, ``sg`` stops the gradient. A step whose ratio lies outside the range, or exactly on a
    bound, has term 0 and gradient 0 whatever the sign of its advantage; every other one has the gradient ``-rho_mu A`` times
    that of its log-probability. No log-probability of an old policy is needed. A step of advantage 0 has term 0 and
    gradient 0.

    It weighs against the sampler itself, so it takes no correction.

    Source: GLM-5 Team, arXiv 2602.15763, as SkyRL implements it; the ranges are SkyRL's defaults.

    Step metrics: ``behaviour_ratio`` (``rho_mu``); ``weight`` (``rho_mu``, 0 where it is outside); ``masked_fraction`` (1
    where it is outside).

    Args:
        epsilon_low: How far below 1 the range reaches, above 0 and at most 1.
        epsilon_high: How far above 1 it reaches, above 0.

    Example:
        >>> import torch
        >>> from grpo_lightning.losses.base import LossInputs
        >>> from grpo_lightning.losses.rollout_is import RolloutIS
        >>> inputs = LossInputs(torch.tensor([-1.0, -2.0]), torch.zeros(2), torch.tensor([-1.1, -3.0]), torch.ones(2),
        ...                     torch.tensor([0, 0]), torch.tensor([2]), torch.tensor([0]))
        >>> RolloutIS()(inputs).terms
        tensor([1.1052, 0.0000])
    """

    name = "rollout_is"
    scope = "step"
    weighs_sampler = True

    def __init__(self, *, epsilon_low: float = 0.2, epsilon_high: float = 0.2) -> None:
        require_range("epsilon_low", epsilon_low, low=0.0, high=1.0, low_open=True)
        require_range("epsilon_high", epsilon_high, low=0.0, high=float("inf"), low_open=True, high_open=True)
        self.epsilon_low, self.epsilon_high = epsilon_low, epsilon_high

    @override
    def formula(self) -> Formula:
        low, high = 1.0 - self.epsilon_low, 1.0 + self.epsilon_high
        return Formula(
            f"l_it = -sg[rho_mu(it) 1({number(low)} < rho_mu(it) < {number(high)})] A_it log pi_theta(it)",
            rf"\ell_{{i,t}} = -\operatorname{{sg}}\left[\rho^\mu_{{i,t}} \mathbb{{1}}({latex_number(low)} < "
            rf"\rho^\mu_{{i,t}} < {latex_number(high)})\right] A_{{i,t}} \log \pi_\theta(y_{{i,t}})",
            {"rho_mu": "pi_theta / mu", "mu": "the policy that sampled", "sg": "without gradient"},
            ("GLM-5 Team, arXiv 2602.15763", "SkyRL, loss rollout_is"),
        )

    @override
    def __call__(self, inputs: LossInputs) -> LossTerms:
        """The terms of one micro-batch: [S], normalised by nothing."""
        advantages_S = inputs.advantages_S.to(inputs.log_probs_S.dtype)
        ratio_S = bounded_exp(inputs.log_probs_S.detach() - inputs.behaviour_log_probs_S)
        outside_S = (ratio_S <= 1.0 - self.epsilon_low) | (ratio_S >= 1.0 + self.epsilon_high)
        weight_S = ratio_S.masked_fill(outside_S, 0.0)
        metrics = {"behaviour_ratio": ratio_S, "weight": weight_S, "masked_fraction": outside_S.to(ratio_S.dtype)}
        return LossTerms(-weight_S * advantages_S * inputs.log_probs_S, metrics)
