"""A reward and what the framework does with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from grpo_lightning.errors import ConfigError, require, require_range
from grpo_lightning.rewards.base import Reward

LONGEST_SECONDS = 1e6
Abstention = Literal["skip", "renormalise", "zero"]
FailurePolicy = float | Literal["stop", "abstain", "drop_group"]
CallUnit = Literal["rollout", "group", "row"]
Isolation = Literal["thread", "process"]


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
        on_failure: What a failed score means (an exception, a hang, a wrong number of scores, NaN, an infinity, ...):
            ``stop`` ends the run and names the reward and the row, ``abstain`` is ``None``, ``drop_group`` takes the row's
            whole group out of training, a number is the score. All but ``stop`` are counted.
        log_only: Score and log it, but leave it out of the composed reward.
        name: Name in logs; by default the reward's own.
        timeout: Seconds that one call may take, at most a million; ``null`` for no limit.
        retries: Further attempts after a failed call.
        backoff: Seconds before the first retry, doubled at each further one.
        range: Lowest and highest score allowed, ``null`` for an open end; a score outside is a failure.
        per_call: What one call gets: all rows (``rollout``), one ``group``, or one ``row``. By default all rows if
            ``concurrency`` is 1, else a group.
        concurrency: Calls that run at once.
        isolation: ``thread``: a call that hangs is left behind, and a few of these end the run. ``process``: calls run in
            worker processes; one that hangs is killed with all that it started.
        cache: File of scores that are kept from call to call and run to run, by reward, settings and arguments.
    """

    component_field: ClassVar[str] = "reward"

    reward: Reward
    weight: float = 1.0
    gate: bool = False
    when: dict[str, Any] | None = None
    on_abstain: Abstention = "skip"
    on_failure: FailurePolicy = "stop"
    log_only: bool = False
    name: str | None = None
    timeout: float | None = 300.0
    retries: int = 0
    backoff: float = 1.0
    range: list[float | None] | None = None
    per_call: CallUnit | None = None
    concurrency: int = 1
    isolation: Isolation = "thread"
    cache: str | None = None

    def __post_init__(self) -> None:
        require_range("weight", self.weight, low_open=True, high_open=True)
        if self.gate and self.weight != 1.0:
            raise ConfigError("weight", self.weight, "has no meaning for a gate", "leave weight out")
        require(self.on_abstain in ("skip", "renormalise", "zero"), "on_abstain", self.on_abstain, "is no policy",
                "set skip, renormalise or zero")  # fmt: skip
        if self.gate and self.on_abstain == "renormalise":
            raise ConfigError("on_abstain", self.on_abstain, "has no meaning for a gate", "set skip or zero")
        self._check_failure()
        _check_bounds(self.range)
        self._check_calls()

    def _check_failure(self) -> None:
        if isinstance(self.on_failure, str):
            require(self.on_failure in ("stop", "abstain", "drop_group"), "on_failure", self.on_failure, "is no policy",
                    "set stop, abstain, drop_group, or a number as the score of a failed row, such as 0")  # fmt: skip
        else:
            require_range("on_failure", self.on_failure, low_open=True, high_open=True)
        counts = not self.log_only and (self.gate or self.weight != 0)
        require(counts or self.on_failure != "drop_group", "on_failure", self.on_failure,
                "has no meaning for a reward that is only logged", "set abstain")  # fmt: skip

    def _check_calls(self) -> None:
        if self.timeout is not None:
            require_range("timeout", self.timeout, low=0, high=LONGEST_SECONDS, low_open=True)
        _require_whole("retries", self.retries, 0)
        require_range("backoff", self.backoff, low=0, high_open=True)
        _require_whole("concurrency", self.concurrency, 1)
        require(self.per_call in (None, "rollout", "group", "row"), "per_call", self.per_call, "is no unit",
                "set rollout, group or row")  # fmt: skip
        require(self.concurrency == 1 or self.per_call != "rollout", "per_call", self.per_call,
                f"makes one call of a rollout, which leaves concurrency {self.concurrency} without a meaning",
                "set group or row")  # fmt: skip
        require(self.isolation in ("thread", "process"), "isolation", self.isolation, "is no isolation",
                "set thread or process")  # fmt: skip
        require(
            self.cache is None or bool(self.cache), "cache", self.cache, "is no file", "name one, such as scores.db"
        )

    @property
    def unit(self) -> CallUnit:
        """What one call gets."""
        return self.per_call or ("rollout" if self.concurrency == 1 else "group")


def _require_whole(setting: str, value: Any, low: int) -> None:
    require_range(setting, value, low=low, high_open=True)
    require(isinstance(value, int), setting, value, "is no whole number", f"set {low} or more")


def _check_bounds(allowed: Sequence[float | None] | None) -> None:
    if allowed is None:
        return
    require(isinstance(allowed, list | tuple) and len(allowed) == 2, "range", allowed, "is no pair", "set [low, high]")
    for bound in allowed:
        if bound is not None:
            require_range("range", bound, low_open=True, high_open=True)
    low, high = allowed
    require(low is not None or high is not None, "range", allowed, "allows everything", "leave it out")
    require(low is None or high is None or low <= high, "range", allowed, "is empty", "set [low, high] with low first")
