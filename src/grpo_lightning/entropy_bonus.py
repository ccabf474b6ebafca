"""A bonus for entropy beside the policy loss, with a fixed or an adapted coefficient."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from grpo_lightning.errors import NonFiniteError, require, require_range
from grpo_lightning.formula import Formula, latex_number, number


@dataclass(kw_only=True)
class EntropyBonus:
    """``-coefficient * H_it`` added to every step's term, ``H_it`` the entropy of what the step could choose from, in nats.

    Without a target the coefficient is ``weight``. With one it is ``c 1[H <= target]``, where ``H`` is the mean entropy over
    steps that was observed last and ``c`` starts as ``weight``; after each observation ``c`` goes up by ``step`` if ``H <
    target`` and down by it if ``H > target``, between 0 and ``highest``. Before anything was observed it is 0.

    The bonus is normalised as the aggregation normalises terms.

    Source: He et al. (Skywork-OR1), arXiv 2505.22312, section 3: target 0.2, step 0.005, starting from 0. The bounds are
    those of practice: without the lower one a long time above the target would turn the bonus into a penalty once it is
    needed again.

    Args:
        weight: The coefficient, or where ``c`` starts; not negative.
        target: Entropy that is to be kept up, above 0, in nats; ``None`` for a fixed coefficient.
        step: What ``c`` changes by at each observation, above 0.
        highest: Largest ``c``; at least ``weight``.

    Example:
        >>> bonus = EntropyBonus(weight=0.0, target=0.2)
        >>> for entropy in (0.5, 0.1, 0.1):
        ...     bonus.observe(entropy)
        >>> bonus.coefficient
        0.01
    """

    weight: float = 0.0
    target: float | None = None
    step: float = 0.005
    highest: float = 1.0
    _adapted: float = field(init=False, repr=False)
    _entropy: float = field(init=False, repr=False, default=math.inf)

    def __post_init__(self) -> None:
        require_range("weight", self.weight, low=0.0, high=math.inf, high_open=True)
        require_range("step", self.step, low=0.0, high=math.inf, low_open=True, high_open=True)
        if self.target is not None:
            require_range("target", self.target, low=0.0, high=math.inf, low_open=True, high_open=True)
            require_range("highest", self.highest, low=0.0, high=math.inf, low_open=True, high_open=True)
            require(
                self.weight <= self.highest, "weight", self.weight, f"is above highest ({self.highest:g})", "lower it"
            )
        self._adapted = self.weight

    @property
    def active(self) -> bool:
        """Whether there is, or may come to be, a bonus: whether entropies are needed with their gradient."""
        return self.target is not None or self.weight > 0

    @property
    def coefficient(self) -> float:
        """What the entropy of a step is multiplied by now."""
        if self.target is None:
            return self.weight
        return self._adapted if self._entropy <= self.target else 0.0

    def observe(self, mean_entropy: float) -> None:
        """Take in the mean entropy over the steps of an update on all ranks; without a target nothing changes.

        Raises:
            NonFiniteError: If it is not a number.
        """
        if self.target is None:
            return
        if math.isnan(mean_entropy):
            raise NonFiniteError("the entropy that the coefficient is adapted to is not a number")
        if mean_entropy < self.target:
            self._adapted = min(self._adapted + self.step, self.highest)
        elif mean_entropy > self.target:
            self._adapted = max(self._adapted - self.step, 0.0)
        self._entropy = mean_entropy

    def formula(self) -> Formula:
        """What is added to the loss term of a step, as an equation."""
        if self.target is None:
            return Formula(
                f"-{number(self.weight)} H_it",
                rf"-{latex_number(self.weight)}\, H_{{i,t}}",
                {"H_it": "entropy of what the step could choose from, in nats"},
            )
        low = number(self.target)
        return Formula(
            f"-c 1[H <= {low}] H_it",
            rf"-c\, \mathbb{{1}}[\bar H \le {latex_number(self.target)}]\, H_{{i,t}}",
            {
                "H_it": "entropy of what the step could choose from, in nats",
                "H": "mean of H_it over the last update's steps",
                "c": f"starts at {number(self.weight)}; +{number(self.step)} after an update with H < {low}, "
                f"-{number(self.step)} after one with H > {low}, between 0 and {number(self.highest)}",
            },
            ("He et al. (Skywork-OR1), arXiv 2505.22312",),
        )

    def state_dict(self) -> dict[str, Any]:
        """The adapted coefficient and the entropy observed last; empty without a target."""
        return {} if self.target is None else {"adapted": self._adapted, "entropy": self._entropy}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what :meth:`state_dict` returned."""
        if state:
            self._adapted, self._entropy = float(state["adapted"]), float(state["entropy"])
