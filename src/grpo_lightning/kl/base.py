"""The contract of KL estimators and the configured KL term."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from grpo_lightning.component import Component
from grpo_lightning.errors import require, require_range


@dataclass(frozen=True)
class KLInputs:
    """Steps as a KL estimator sees them."""

    log_probs_S: Tensor
    """[S] under the current policy."""
    reference_log_probs_S: Tensor
    """[S] under the reference, without gradient."""
    old_log_probs_S: Tensor
    """[S] under the policy at the start of the rollout's updates, without gradient."""
    exact_kl_S: Tensor | None = None
    """[S] the exact divergence, where the estimator declared the functional ``exact_kl``."""


class KLEstimator(Component, ABC):
    """One value a step that estimates, or is, the divergence from the reference."""

    kind = "kl"
    functionals: ClassVar[frozenset[str]] = frozenset()
    """``exact_kl`` if the estimator needs it."""

    @abstractmethod
    def __call__(self, inputs: KLInputs) -> Tensor:
        """[S] values, with gradient where the inputs have one."""


@dataclass(kw_only=True)
class KLTerm:
    """How far the policy may go from its reference, and where that is paid.

    Args:
        estimator: KL estimator.
        weight: Coefficient, at least 0. With 0 no reference is kept or run.
        where: ``loss`` adds ``weight * KL`` to every step's term; ``reward`` subtracts ``weight * sum_t KL_t`` from the
            row's reward before the advantage.
        target: Divergence of a row, in nats, that the weight is adapted to (Ziegler et al., arXiv 1909.08593); ``weight``,
            which must not be 0 then, is where it starts. ``None`` keeps it as it is.
        horizon: Rows over which the adapted weight changes by a factor of about ``exp(0.2)`` at most; at least 1.
    """

    component_field: ClassVar[str] = "estimator"

    estimator: KLEstimator
    weight: float = 0.001
    where: Literal["loss", "reward"] = "loss"
    target: float | None = None
    horizon: int = 10000

    def __post_init__(self) -> None:
        require_range("weight", self.weight, low=0.0, high=float("inf"), high_open=True)
        require_range("horizon", self.horizon, low=1, high=float("inf"), high_open=True)
        if self.target is not None:
            require_range("target", self.target, low=0.0, high=float("inf"), low_open=True, high_open=True)
            require(
                self.weight > 0, "weight", self.weight, "stays 0 whatever the target", "set the weight to start from"
            )
        require(self.where in ("loss", "reward"), "where", self.where, "is no placement", "set 'loss' or 'reward'")

    @property
    def in_loss(self) -> bool:
        """Whether it is a term of the loss."""
        return self.where == "loss" and self.weight > 0

    @property
    def in_reward(self) -> bool:
        """Whether it is paid from the reward."""
        return self.where == "reward" and self.weight > 0
