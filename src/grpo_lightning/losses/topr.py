"""REINFORCE that lets go of bad rows as the policy leaves them (TOPR)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from torch import Tensor
from typing_extensions import override

from grpo_lightning.errors import ConfigError, require
from grpo_lightning.formula import Formula
from grpo_lightning.losses.base import LossInputs, LossTerms, PolicyLoss


class TOPR(PolicyLoss):
    """``-w R log pi_theta`` a step, ``w = 1`` where ``R >= 0`` and ``sg[min(pi_theta(y) / mu(y), 1)]`` of the row elsewhere.

    ``mu`` is the policy that sampled, ``pi_theta(y) / mu(y)`` the product of the ratios of all steps of the row, ``sg`` stops
    the gradient. Good rows are imitated at full weight however old they are; bad ones are pushed away only as long as the
    policy would still write them. At ``R = 0`` the term and the gradient are 0, so it does not matter which side 0 is on.

    ``signal`` says what ``R`` is. In the paper it is a reward of +1 or -1, less a baseline where there is one. ``advantage``
    is that with any baseline the estimator has; where the steps of a row have advantages of their own, each step goes by its
    own sign. ``reward`` is the row's composed reward alone: the advantage then only decides which rows a selector keeps, rows
    of advantage 0 have a term, and a reward that is never negative makes it imitation. A row that abstains has ``R = 0``.

    Summed over the row (aggregation ``sequence_mean_token_sum``) it is the paper's objective; its experiments divide by the
    length (``sequence_mean_token_mean``). It weighs against the sampler itself, so it takes no correction.

    Source: Le Roux et al. (TOPR), arXiv 2503.14286, eq. 7 and 8, canonical limits.

    Step metrics: ``weight`` (``w``); ``clip_fraction_high`` (1 where ``R < 0`` and the row's ratio is above 1).

    Args:
        signal: ``advantage`` or ``reward``.

    Example:
        >>> import torch
        >>> from grpo_lightning.losses.base import LossInputs
        >>> from grpo_lightning.losses.topr import TOPR
        >>> inputs = LossInputs(torch.tensor([-3.0, -1.0, -3.0]), torch.zeros(3), -torch.ones(3),
        ...                     torch.tensor([1.0, -1.0, -1.0]), torch.tensor([0, 1, 1]), torch.tensor([1, 2]), torch.zeros(2))
        >>> TOPR()(inputs).terms  # the second row's weight is exp(-2)
        tensor([ 3.0000, -0.1353, -0.4060])
    """

    name = "topr"
    scope = "step"
    weighs_sampler = True
    differs: ClassVar[Mapping[str, str]] = {
        "verl": "takes the geometric mean of the row's ratios instead of their product: the weight of a bad row of l steps is "
        "the l-th root.",
        "ROLL": "weighs each step by its own ratio, takes the sign from the row's score and multiplies by the advantage.",
    }

    def __init__(self, *, signal: Literal["advantage", "reward"] = "advantage") -> None:
        require(signal in ("advantage", "reward"), "signal", signal, "is no signal", "set 'advantage' or 'reward'")
        self.signal = signal
        self.runs_silent = signal == "reward"

    @override
    def formula(self) -> Formula:
        text, latex = ("A_it", "A_{i,t}") if self.signal == "advantage" else ("r_i", "r_i")
        weight = r"\operatorname{sg}\left[\min\left(\prod_s \frac{\pi_\theta(y_{i,s})}{\mu(y_{i,s})}, 1\right)\right]"
        return Formula(
            f"l_it = -w_it {text} log pi_theta(it), w_it = 1 where {text} >= 0 and "
            f"sg[min(prod_s pi_theta(is) / mu(is), 1)] where {text} < 0",
            rf"\ell_{{i,t}} = -w_{{i,t}} {latex} \log \pi_\theta(y_{{i,t}}), \quad w_{{i,t}} = \begin{{cases}} "
            rf"1 & {latex} \ge 0 \\ {weight} & {latex} < 0 \end{{cases}}",
            {"mu": "the policy that sampled", "sg": "without gradient"},
            ("Le Roux et al. (TOPR), arXiv 2503.14286, eq. 7 and 8",),
        )

    @override
    def __call__(self, inputs: LossInputs) -> LossTerms:
        """The terms of one micro-batch: [S], normalised by nothing.

        Raises:
            ConfigError: If the signal is the reward and the inputs have none.
        """
        dtype = inputs.log_probs_S.dtype
        signal_S = self._signal(inputs).to(dtype)
        log_ratio_S = (inputs.log_probs_S.detach() - inputs.behaviour_log_probs_S).double()
        log_ratio_R = inputs.sum_rows(log_ratio_S)
        tapered_R = log_ratio_R.clamp(max=0.0).exp().to(dtype)
        weight_S = torch.where(signal_S < 0, tapered_R[inputs.row_S], 1.0)
        held_S = (signal_S < 0) & (log_ratio_R > 0)[inputs.row_S]
        metrics = {"weight": weight_S, "clip_fraction_high": held_S.to(dtype)}
        return LossTerms(-weight_S * signal_S * inputs.log_probs_S, metrics)

    def _signal(self, inputs: LossInputs) -> Tensor:
        if self.signal == "advantage":
            return inputs.advantages_S
        if inputs.rewards_R is None:
            raise ConfigError("signal", self.signal, "asks for rewards and the inputs have none", "set 'advantage'")
        return inputs.rewards_R.nan_to_num(nan=0.0)[inputs.row_S]
