"""PPO whose clip is centred on another policy than the one that sampled (decoupled PPO)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.errors import ConfigError, require, require_range
from grpo_lightning.formula import Formula, latex_number, number
from grpo_lightning.losses.base import LossInputs, LossTerms, PolicyLoss, bounded_exp
from grpo_lightning.losses.clipping import clip_gain, clip_latex, clip_text


class DecoupledPPO(PolicyLoss):
    """``-sg[pi_prox / mu] min(rho A, clip(rho, 1 - epsilon_low, 1 + epsilon_high) A)`` a step, ``rho = pi_theta / pi_prox``.

    ``mu`` is the policy that sampled, which may be old; ``pi_prox`` the proximal one, around which the trust region lies;
    ``sg`` stops the gradient. Where nothing is clipped or capped, value and gradient are those of ``-(pi_theta / mu) A``. With
    ``mu = pi_prox`` it is :class:`~.clipped.ClippedPolicyLoss`. A step of advantage 0 has term 0 and gradient 0.

    ``proximal`` says what ``pi_prox`` is. ``old``: the policy at the start of the rollout's updates, recomputed. With
    ``interpolated`` it is ``log pi_prox = log mu + alpha (log pi_theta - log mu)`` without gradient, from versions of the
    weights: ``alpha = (v_old - v_mu) / (v_theta - v_mu)``, held between 0 and 1, and 0 where the weights that sampled are the
    current ones. It needs no pass for old log-probabilities.

    The weight is taken against the sampler, so the loss takes no correction.

    Source: Hilton et al., arXiv 2110.00641; Fu et al. (AReaL), arXiv 2505.24298; AReaL's documentation for ``interpolated``
    (its ``loglinear``) and for the cap.

    Step metrics: ``proximal_ratio`` (``rho``); ``weight`` (the weight ``pi_prox / mu``, capped); ``clip_fraction_low`` and
    ``clip_fraction_high`` (1 where the lower or the upper bound has taken the gradient); ``masked_fraction`` (1 where the
    weight was above the cap, dropped or truncated).

    Args:
        epsilon_low: How far ``rho`` may fall below 1, from 0 to 1.
        epsilon_high: How far it may rise above 1; not negative.
        cap: Largest weight ``pi_prox / mu``, at least 1; ``None`` for none.
        above_cap: What happens to a step whose weight is above the cap: ``drop`` (term and gradient 0) or ``truncate`` (the
            weight becomes the cap).
        proximal: ``old`` or ``interpolated``.

    Example:
        >>> import torch
        >>> from grpo_lightning.losses.base import LossInputs
        >>> from grpo_lightning.losses.decoupled import DecoupledPPO
        >>> inputs = LossInputs(torch.tensor([-1.0, -1.0]), torch.tensor([-1.1, -2.0]), torch.tensor([-1.2, -2.5]),
        ...                     torch.ones(2), torch.tensor([0, 0]), torch.tensor([2]), torch.tensor([0]))
        >>> DecoupledPPO()(inputs).terms  # -exp(0.2), and -1.2 exp(0.5) where it is clipped
        tensor([-1.2214, -1.9785])
    """

    name = "decoupled"
    scope = "step"
    weighs_sampler = True
    differs: ClassVar[Mapping[str, str]] = {
        "AReaL": "its approximation takes the policy one update before the current one as the proximal one, in a rollout's "
        "first update too; here that is the policy at the start of the rollout's updates, which in the first is the current "
        "one. In the second update both are equal.",
    }

    def __init__(
        self,
        *,
        epsilon_low: float = 0.2,
        epsilon_high: float = 0.2,
        cap: float | None = None,
        above_cap: Literal["drop", "truncate"] = "drop",
        proximal: Literal["old", "interpolated"] = "old",
    ) -> None:
        require_range("epsilon_low", epsilon_low, low=0.0, high=1.0)
        require_range("epsilon_high", epsilon_high, low=0.0, high=float("inf"), high_open=True)
        if cap is not None:
            require_range("cap", cap, low=1.0, high=float("inf"), high_open=True)
        require(above_cap in ("drop", "truncate"), "above_cap", above_cap, "is no rule", "set 'drop' or 'truncate'")
        require(
            proximal in ("old", "interpolated"), "proximal", proximal, "is no policy", "set 'old' or 'interpolated'"
        )
        self.epsilon_low, self.epsilon_high = epsilon_low, epsilon_high
        self.cap, self.above_cap, self.proximal = cap, above_cap, proximal

    @override
    def formula(self) -> Formula:
        low, high = 1.0 - self.epsilon_low, 1.0 + self.epsilon_high
        weight, latex = "pi_prox(it) / mu(it)", r"\frac{\pi_{prox}(y_{i,t})}{\mu(y_{i,t})}"
        symbols = {
            "rho_prox_it": "pi_theta(it) / pi_prox(it)",
            "mu": "the policy that sampled",
            "sg": "without gradient",
        }
        if self.cap is not None and self.above_cap == "truncate":
            weight, latex = f"min({weight}, {number(self.cap)})", rf"\min\left({latex}, {latex_number(self.cap)}\right)"
        elif self.cap is not None:
            weight, latex = (
                f"kappa_it 1(kappa_it <= {number(self.cap)})",
                rf"\kappa_{{i,t}} \mathbb{{1}}(\kappa_{{i,t}} \le {latex_number(self.cap)})",
            )
            symbols["kappa_it"] = "pi_prox(it) / mu(it)"
        symbols["pi_prox"] = "the policy at the start of the rollout's updates"
        if self.proximal == "interpolated":
            symbols["pi_prox"] = (
                "sg[mu^(1 - alpha) pi_theta^alpha], alpha = (v_old - v_mu) / (v_theta - v_mu) in [0, 1]"
            )
            symbols["v"] = "number of updates that the weights have seen"
        return Formula(
            f"l_it = -sg[{weight}] {clip_text('rho_prox_it', 'A_it', low, high)}",
            rf"\ell_{{i,t}} = -\operatorname{{sg}}\left[{latex}\right] "
            + clip_latex(r"\rho^{prox}_{i,t}", "A_{i,t}", low, high),
            symbols,
            ("Hilton et al., arXiv 2110.00641", "Fu et al. (AReaL), arXiv 2505.24298"),
        )

    @override
    def __call__(self, inputs: LossInputs) -> LossTerms:
        """The terms of one micro-batch: [S], normalised by nothing.

        Raises:
            ConfigError: If the proximal policy is interpolated and the inputs hold no versions.
        """
        dtype = inputs.log_probs_S.dtype
        advantages_S = inputs.advantages_S.to(dtype)
        proximal_S = self._proximal(inputs)
        log_weight_S = proximal_S - inputs.behaviour_log_probs_S
        log_ratio_S = inputs.log_probs_S - proximal_S
        low, high = 1.0 - self.epsilon_low, 1.0 + self.epsilon_high
        clipped = clip_gain(bounded_exp(log_ratio_S.detach()), advantages_S, low, high)
        log_low = math.log(low) if low > 0 else -math.inf
        limited_S = log_ratio_S.masked_fill(clipped.low, log_low).masked_fill(clipped.high, math.log(high))
        above_S = torch.zeros_like(clipped.low)
        if self.cap is not None:
            above_S = log_weight_S > math.log(self.cap)
            log_weight_S = log_weight_S.clamp(max=math.log(self.cap))
        # One exponential of the sum: two bounded ones could overflow when they are multiplied.
        factor_S, weight_S = bounded_exp(log_weight_S + limited_S), bounded_exp(log_weight_S)
        if self.above_cap == "drop":
            factor_S, weight_S = factor_S.masked_fill(above_S, 0.0), weight_S.masked_fill(above_S, 0.0)
        metrics = {
            "proximal_ratio": bounded_exp(log_ratio_S.detach()),
            "weight": weight_S,
            "clip_fraction_low": clipped.low.to(dtype),
            "clip_fraction_high": clipped.high.to(dtype),
            "masked_fraction": above_S.to(dtype),
        }
        return LossTerms(-advantages_S * factor_S, metrics)

    def _proximal(self, inputs: LossInputs) -> Tensor:
        """[S]: log-probability under the proximal policy, without gradient."""
        if self.proximal == "old":
            return inputs.old_log_probs_S
        if inputs.behaviour_version_R is None:
            raise ConfigError("proximal", self.proximal, "asks for the versions of the weights that sampled, and the inputs "
                              "have none", "set 'old'")  # fmt: skip
        behaviour_S = inputs.behaviour_log_probs_S
        age_R = inputs.version - inputs.behaviour_version_R
        gap_R = (inputs.old_version - inputs.behaviour_version_R).to(behaviour_S.dtype)
        alpha_R = (gap_R / age_R.clamp(min=1)).masked_fill(age_R <= 0, 0.0).clamp(0.0, 1.0)
        alpha_S = alpha_R[inputs.row_S]
        return behaviour_S + alpha_S * (inputs.log_probs_S.detach() - behaviour_S)
