"""A judge's grade on a scale."""

from __future__ import annotations

import logging
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

from typing_extensions import override

from grpo_lightning.errors import require, require_range
from grpo_lightning.rewards.base import Score
from grpo_lightning_judge.answers import check_pattern
from grpo_lightning_judge.base import EXAMPLE, JudgeReward, Unjudged, judged_once
from grpo_lightning_judge.endpoint import Endpoint
from grpo_lightning_judge.failures import JudgeError
from grpo_lightning_judge.judge import Judge, together
from grpo_lightning_judge.quoting import plain
from grpo_lightning_judge.template import SYSTEM, checked_template
from grpo_lightning_judge.verdicts import Grade

log = logging.getLogger(__name__)

TEMPLATE = """A task was set:

{prompt}

This response was given:

{completion}

How good is the response? Consider whether it is right, complete and clear. Give a number from {low} (useless) to {high} \
(could not be better). Reason briefly."""
WITH_REFERENCE = """A task was set:

{prompt}

A correct answer to it is:

{reference}

This response was given:

{completion}

How well does the response agree with the correct answer, and how clear is it? Give a number from {low} (wrong) to {high} \
(right in every point). Reason briefly."""


class JudgeScore(JudgeReward):
    """Mean or median over votes of a judge's grade, ``(grade - low) / (high - low)``, in [0, 1].

    Equal responses to one prompt are judged once a call.

    Args:
        judge: Where the judge is, and how it is asked.
        low: Lowest grade.
        high: Highest grade.
        votes: Grades that are put together; more than one needs a temperature above 0.
        aggregate: How: ``mean`` or ``median``.
        reference: Column with a correct answer that the judge is shown. A row without one abstains.
        pattern: Regular expression whose one group is the grade, in place of JSON; its last match counts. The template
            then says what to write.
        template: The question, with the fields ``{prompt}``, ``{completion}``, ``{low}``, ``{high}``, ``{reference}``,
            ``{instruction}`` and ``{nonce}``, of which ``{completion}`` is required.
        system: The system message; empty for none.
        unjudged: What a row without a grade gets: ``fail``, ``abstain`` or ``raise``.
    """

    name = "judge_score"
    example: ClassVar[Mapping[str, Any]] = {"judge": EXAMPLE}

    def __init__(
        self,
        *,
        judge: Endpoint,
        low: float = 0.0,
        high: float = 10.0,
        votes: int = 1,
        aggregate: Literal["mean", "median"] = "mean",
        reference: str | None = None,
        pattern: str | None = None,
        template: str | None = None,
        system: str = SYSTEM,
        unjudged: Unjudged = "fail",
    ) -> None:
        super().__init__(judge=judge, votes=votes, unjudged=unjudged)
        require_range("low", low, low_open=True, high=high, high_open=True)
        require_range("high", high, high_open=True)
        require(aggregate in ("mean", "median"), "aggregate", aggregate, "is no way", "set mean or median")
        check_pattern(pattern)
        self.low, self.high, self.aggregate, self.reference = low, high, aggregate, reference
        self.parser = Grade(low, high, pattern)
        self.template = checked_template(
            system,
            template or (TEMPLATE if reference is None else WITH_REFERENCE),
            required=["completion", *(["reference"] if reference else [])],
            optional=["prompt", "low", "high"],
        )

    @override
    def columns(self) -> list[str]:
        return [] if self.reference is None else [self.reference]

    @override
    def scorer(self) -> Callable[..., Any]:
        return self._without_columns if self.reference is None else self.score

    async def _without_columns(self, *, prompts: list[Any], completions: list[str]) -> Sequence[Score]:
        return await self.score(prompts=prompts, completions=completions)

    @override
    async def score(self, *, prompts: list[Any], completions: list[str], **columns: list[Any]) -> Sequence[Score]:
        """One score in [0, 1] a row."""
        judge = Judge(self.judge)
        references = columns[self.reference] if self.reference else [""] * len(completions)
        keys = [
            (plain(prompt), completion, None if reference is None else str(reference))
            for prompt, completion, reference in zip(prompts, completions, references, strict=True)
        ]

        async def ask(key: tuple[str, str, str | None]) -> float | JudgeError | None:
            return await self._grade(judge, *key)

        return self.finish(judge, await judged_once(keys, ask))

    async def _grade(
        self, judge: Judge, prompt: str, completion: str, reference: str | None
    ) -> float | JudgeError | None:
        if reference is None:
            return None
        quoted = {"prompt": prompt, "completion": completion}
        if self.reference:
            quoted["reference"] = reference
        scale = {"low": f"{self.low:g}", "high": f"{self.high:g}"}
        messages = self.template.fill(quoted, instruction=self.parser.instruction, plain=scale)
        answers = await together(judge.verdict(messages, self.parser, vote=vote) for vote in range(self.votes))
        grades = [answer for answer in answers if not isinstance(answer, JudgeError)]
        if not grades:
            return next(answer for answer in answers if isinstance(answer, JudgeError))
        if len(grades) > 1:
            log.debug("%s: grades differ by %.3g: %s", self.name, max(grades) - min(grades), grades)
        return statistics.fmean(grades) if self.aggregate == "mean" else statistics.median(grades)
