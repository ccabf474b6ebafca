"""A reward and what the framework does with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from grpo_lightning.errors import ConfigError, require, require_range
from grpo_lightning.rewards.base import Reward

Abstention = Literal["skip", "renormalise", "zero"]
FailurePolicy = Literal["error", "abstain", "zero"]


@dataclass(kw_only=True)
class RewardEntry:
    """One line of the list ``rewards``: a reward with its weight and its policies.

    The composed reward of a row is ``(sum_k w_k r_k) * prod_j r_j`` with k over its weighted and j over its gate entries.

    Args:
        reward: The reward.
        weight: Coefficient in the sum; may be negative. 0 only logs it.
        gate: Multiply the weighted sum by this score instead of adding to it; ``weight`` must be left at 1.
        when: Column and value, such as ``{task: sum}`` or ``{task: [sum, product]}``: the entry applies to rows whose
            columns all have one of these values. To the others it does not belong: it is not asked, and no weight of
            theirs counts it.
        on_abstain: What ``None`` means: ``skip`` leaves the entry out of the row's sum (a gate then passes),
            ``renormalise`` also scales the weights of the row's other entries up to the sum of all, ``zero`` counts 0.
            A row whose weighted entries all are left out abstains as a whole.
        on_failure: What an exception, a wrong number of scores, NaN or an infinity means: ``error`` stops the run and
            names the reward and the row, ``abstain`` is ``None``, ``zero`` is 0; the latter two are counted.
        log_only: Score and log it, but leave it out of the composed reward.
        name: Name in logs; by default the reward's own.
    """

    component_field: ClassVar[str] = "reward"

    reward: Reward
    weight: float = 1.0
    gate: bool = False
    when: dict[str, Any] | None = None
    on_abstain: Abstention = "skip"
    on_failure: FailurePolicy = "error"
    log_only: bool = False
    name: str | None = None

    def __post_init__(self) -> None:
        require_range("weight", self.weight, low_open=True, high_open=True)
        if self.gate and self.weight != 1.0:
            raise ConfigError("weight", self.weight, "has no meaning for a gate", "leave weight out")
        require(self.on_abstain in ("skip", "renormalise", "zero"), "on_abstain", self.on_abstain, "is no policy",
                "set skip, renormalise or zero")  # fmt: skip
        require(self.on_failure in ("error", "abstain", "zero"), "on_failure", self.on_failure, "is no policy",
                "set error, abstain or zero")  # fmt: skip
        if self.gate and self.on_abstain == "renormalise":
            raise ConfigError("on_abstain", self.on_abstain, "has no meaning for a gate", "set skip or zero")
