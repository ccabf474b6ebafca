"""Wins against anchor responses, by a judge that compares two at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from grpo_lightning.errors import DataError, require, require_range
from grpo_lightning.rewards.base import Score
from grpo_lightning_judge.base import EXAMPLE, JudgeReward, Unjudged, judged_once
from grpo_lightning_judge.comparing import TEMPLATE, comparison
from grpo_lightning_judge.endpoint import Endpoint
from grpo_lightning_judge.failures import JudgeError
from grpo_lightning_judge.judge import Judge
from grpo_lightning_judge.quoting import plain
from grpo_lightning_judge.template import SYSTEM
from grpo_lightning_judge.wins import credit, rewards_of


class JudgeAnchors(JudgeReward):
    """``alpha sum_k [o_i beats a_k]`` over the n anchors of the prompt (AGR): wins against fixed responses.

    Every pair is judged in both orders; who wins must win both, otherwise it is a tie. Anchors are responses of the
    policy before training, say, written into a column of the data.

    Source: rewards from ranks (RRC): anchor-guided reward. Its authors find 8 to 16 anchors enough.

    Args:
        judge: Where the judge is, and how it is asked.
        column: Column with the anchors of each row: a list of texts, or one text. A row without any abstains.
        votes: Judgements of each pair, each in both orders, of which the majority counts; more than one needs a temperature
            above 0.
        alpha: Reward of one win.
        normalise: Give the share of anchors that were beaten, in [0, 1], in place of ``alpha`` times their number.
        tie_value: Wins that a tie counts for, in [0, 1].
        pattern: Regular expression whose one group is A, B or tie, in place of JSON; its last match counts. The template
            then says what to write.
        template: The question, with the fields ``{prompt}``, ``{a}``, ``{b}``, ``{instruction}`` and ``{nonce}``, of which
            ``{a}`` and ``{b}`` are required.
        system: The system message; empty for none.
        unjudged: What a row gets none of whose comparisons got a verdict: ``fail``, ``abstain`` or ``raise``.
    """

    name = "judge_anchors"
    example: ClassVar[Mapping[str, Any]] = {"judge": EXAMPLE, "column": "anchors"}
    example_columns: ClassVar[Mapping[str, Sequence[Any]]] = {"anchors": [["7", "no"], ["12"]]}

    def __init__(
        self,
        *,
        judge: Endpoint,
        column: str = "anchors",
        votes: int = 1,
        alpha: float = 1.0,
        normalise: bool = True,
        tie_value: float = 0.0,
        pattern: str | None = None,
        template: str = TEMPLATE,
        system: str = SYSTEM,
        unjudged: Unjudged = "fail",
    ) -> None:
        super().__init__(judge=judge, votes=votes, unjudged=unjudged)
        require(bool(column), "column", column, "is empty", "name a column of the data")
        require_range("alpha", alpha, low_open=True, high_open=True)
        require_range("tie_value", tie_value, low=0, high=1)
        self.column, self.alpha, self.normalise, self.tie_value = column, alpha, normalise, tie_value
        self.comparison = comparison(system, template, pattern, votes)

    @override
    def columns(self) -> list[str]:
        return [self.column]

    @override
    async def score(self, *, prompts: list[Any], completions: list[str], **columns: list[Any]) -> Sequence[Score]:
        """One score a row: in [0, 1], or in [0, alpha n] for n anchors without ``normalise``."""
        judge = Judge(self.judge)
        anchors = [_anchors(value, self.column) for value in columns[self.column]]
        keys = list(zip(map(plain, prompts), completions, anchors, strict=True))

        async def ask(key: tuple[str, str, tuple[str, ...]]) -> float | JudgeError | None:
            return await self._row(judge, *key)

        return self.finish(judge, await judged_once(keys, ask))

    async def _row(
        self, judge: Judge, prompt: str, completion: str, anchors: tuple[str, ...]
    ) -> float | JudgeError | None:
        if not anchors:
            return None

        async def meet(anchor: str) -> float | JudgeError:
            return await self.comparison.margin(judge, prompt, completion, anchor)

        margins = await judged_once(anchors, meet)
        earned = [None if isinstance(margin, JudgeError) else credit(margin, self.tie_value) for margin in margins]
        reward = rewards_of([earned], opponents=len(anchors), alpha=self.alpha, normalise=self.normalise)[0]
        return next(m for m in margins if isinstance(m, JudgeError)) if reward is None else reward


def _anchors(value: Any, column: str) -> tuple[str, ...]:
    if value is None:
        return ()
    anchors = (value,) if isinstance(value, str) else value
    if not isinstance(anchors, list | tuple) or not all(isinstance(each, str) for each in anchors):
        raise DataError(column, value, "holds no anchors", "give a list of texts")
    return tuple(anchors)
