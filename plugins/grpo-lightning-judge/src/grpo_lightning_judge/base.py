"""What the rewards of a judge have in common."""

from __future__ import annotations

import logging
import math
from abc import ABC
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Sequence
from functools import cache
from typing import ClassVar, Literal, TypeVar

from typing_extensions import override

from grpo_lightning.errors import ConfigError, require, require_range
from grpo_lightning.rewards.base import Reward, Score
from grpo_lightning_judge.endpoint import Endpoint
from grpo_lightning_judge.failures import JudgeError
from grpo_lightning_judge.judge import Judge, together

log = logging.getLogger(__name__)

Unjudged = Literal["fail", "abstain", "raise"]
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

EXAMPLE = {"base_url": "dry-run", "model": "judge"}


class JudgeReward(Reward, ABC):
    """A reward that asks a judge.

    Args:
        judge: Where the judge is, and how it is asked.
        votes: Answers to each question that are put together.
        unjudged: What a row gets about which the judge gave no verdict: ``fail`` is NaN, a failure of that row alone, which
            the entry's ``on_failure`` replaces and counts; ``abstain`` is ``None``; ``raise`` fails the whole call. Where no
            row of a call got a verdict, ``fail`` raises too.
        votes_differ: Whether two answers to one question can differ at temperature 0, because it is asked differently.
    """

    deterministic = False
    version: ClassVar[str] = "1"

    def __init__(self, *, judge: Endpoint, votes: int, unjudged: Unjudged, votes_differ: bool = False) -> None:
        self.judge = Endpoint.of(judge)
        require_range("votes", votes, low=1)
        if votes > 1 and self.judge.temperature == 0 and not votes_differ:
            raise ConfigError("votes", votes, "asks one question several times at temperature 0",
                              "set judge.temperature above 0, or votes to 1")  # fmt: skip
        require(unjudged in ("fail", "abstain", "raise"), "unjudged", unjudged, "is no policy",
                "set fail, abstain or raise")  # fmt: skip
        self.votes, self.unjudged = votes, unjudged
        self._counts: Counter[str] = Counter()

    @property
    def counts(self) -> dict[str, int]:
        """What all calls came to so far, see :attr:`grpo_lightning_judge.judge.Judge.counts`."""
        return dict(self._counts)

    @override
    def setup(self) -> None:
        try:
            self.judge.key()
        except ConfigError as error:
            raise error.under("judge") from None
        if self.judge.dry_run:
            _tell_dry_run(self.name)
        else:
            import grpo_lightning_judge.connection  # noqa: F401 - now, so that no call's time pays for it

    def finish(self, judge: Judge, values: Sequence[float | JudgeError | None]) -> list[Score]:
        """The scores of a call: errors replaced as ``unjudged`` says, and all of it counted and logged.

        Raises:
            JudgeError: If a row got no verdict under ``raise``, or none got one under ``fail``.
        """
        self._counts.update(judge.counts)
        errors = [value for value in values if isinstance(value, JudgeError)]
        shown = ", ".join(f"{count} {name}" for name, count in judge.counts.items() if count)
        log.debug("%s: %s", self.name, shown)
        if errors:
            log.warning("%s: %d of %d rows got no verdict; the first: %s (%s)",
                        self.name, len(errors), len(values), errors[0], shown)  # fmt: skip
        nothing = len(errors) == sum(value is not None for value in values)
        if errors and (self.unjudged == "raise" or (self.unjudged == "fail" and nothing)):
            raise errors[0]
        lost = None if self.unjudged == "abstain" else math.nan
        return [lost if isinstance(value, JudgeError) else value for value in values]


@cache
def _tell_dry_run(name: str) -> None:
    log.warning("%s: base_url is dry-run, so no judge is asked and scores mean nothing", name)


async def judged_once(keys: Sequence[K], ask: Callable[[K], Awaitable[V]]) -> list[V]:
    """What ``ask`` gives for each key; equal keys are asked about once, different ones at the same time."""
    distinct = list(dict.fromkeys(keys))
    answers = dict(zip(distinct, await together(ask(key) for key in distinct), strict=True))
    return [answers[key] for key in keys]


def rows_by_group(groups: Sequence[int]) -> list[list[int]]:
    """Rows of each group, in the order in which groups first occur.

    Example:
        >>> rows_by_group([4, 4, 2, 4])
        [[0, 1, 3], [2]]
    """
    rows: dict[int, list[int]] = {}
    for row, group in enumerate(groups):
        rows.setdefault(group, []).append(row)
    return list(rows.values())
