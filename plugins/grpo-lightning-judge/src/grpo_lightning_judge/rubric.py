"""A judge's marks for criteria."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from grpo_lightning.errors import DataError, require
from grpo_lightning.rewards.base import Score
from grpo_lightning_judge.base import EXAMPLE, JudgeReward, Unjudged, judged_once
from grpo_lightning_judge.endpoint import Endpoint
from grpo_lightning_judge.failures import JudgeError
from grpo_lightning_judge.judge import Judge, together
from grpo_lightning_judge.quoting import plain
from grpo_lightning_judge.template import SYSTEM, checked_template
from grpo_lightning_judge.verdicts import Marks

log = logging.getLogger(__name__)

Criterion = tuple[str, float]
"""Its text and its weight."""

TEMPLATE = """A task was set:

{prompt}

This response was given:

{completion}

Mark the response by each of these criteria:

{criteria}

A mark is 1 where the response meets the criterion, 0 where it does not speak to it, and -1 where it is wrong about it. Reason \
briefly."""


class JudgeRubric(JudgeReward):
    """``sum_c w_c m_c / sum_c |w_c|`` with a judge's mark m_c in {+1, 0, -1} for each criterion c, in [-1, 1].

    +1 where the response meets the criterion, 0 where it is silent, -1 where it is wrong. All criteria are asked about in
    one question; over several votes the mean of each mark counts. Criteria are texts of the configuration or the data, so
    they are shown to the judge as such, not as quoted data.

    Source: the three-state rubric of ConRub-Med.

    Args:
        judge: Where the judge is, and how it is asked.
        criteria: The criteria of every row.
        weights: Their weights; by default all are equal.
        column: Column with the criteria of each row, in place of ``criteria``: a list of texts, or of
            ``{criterion: TEXT, weight: NUMBER}``. A row without any abstains.
        votes: Answers whose marks are averaged; more than one needs a temperature above 0.
        template: The question, with the fields ``{prompt}``, ``{completion}``, ``{criteria}``, ``{instruction}`` and
            ``{nonce}``, of which ``{completion}`` and ``{criteria}`` are required.
        system: The system message; empty for none.
        unjudged: What a row without marks gets: ``fail``, ``abstain`` or ``raise``.
    """

    name = "judge_rubric"
    example: ClassVar[Mapping[str, Any]] = {"judge": EXAMPLE, "criteria": ["It is true.", "It is short."]}

    def __init__(
        self,
        *,
        judge: Endpoint,
        criteria: list[str] | None = None,
        weights: list[float] | None = None,
        column: str | None = None,
        votes: int = 1,
        template: str = TEMPLATE,
        system: str = SYSTEM,
        unjudged: Unjudged = "fail",
    ) -> None:
        super().__init__(judge=judge, votes=votes, unjudged=unjudged)
        require((criteria is None) != (column is None), "criteria", criteria, "and column must not both be given or missing",
                "set one of them")  # fmt: skip
        require(criteria is None or bool(criteria), "criteria", criteria, "is empty", "name one criterion at least")
        if weights is not None:
            fits = criteria is not None and len(weights) == len(criteria) and any(weights)
            require(fits, "weights", weights, "does not fit criteria", "give one number a criterion, not all 0")
        self.column = column
        shares = [1.0] * len(criteria or []) if weights is None else list(map(float, weights))
        self.criteria = tuple(zip(criteria or [], shares, strict=True))
        self.template = checked_template(system, template, required=["completion", "criteria"], optional=["prompt"])

    @override
    def columns(self) -> list[str]:
        return [] if self.column is None else [self.column]

    @override
    def scorer(self) -> Callable[..., Any]:
        return self._without_columns if self.column is None else self.score

    async def _without_columns(self, *, prompts: list[Any], completions: list[str]) -> Sequence[Score]:
        return await self.score(prompts=prompts, completions=completions)

    @override
    async def score(self, *, prompts: list[Any], completions: list[str], **columns: list[Any]) -> Sequence[Score]:
        """One score in [-1, 1] a row."""
        judge = Judge(self.judge)
        criteria = (
            [self.criteria] * len(completions)
            if self.column is None
            else [criteria_of(value, self.column) for value in columns[self.column]]
        )
        keys = list(zip(map(plain, prompts), completions, criteria, strict=True))

        async def ask(key: tuple[str, str, tuple[Criterion, ...]]) -> float | JudgeError | None:
            return await self._marks(judge, *key)

        return self.finish(judge, await judged_once(keys, ask))

    async def _marks(
        self, judge: Judge, prompt: str, completion: str, criteria: tuple[Criterion, ...]
    ) -> float | JudgeError | None:
        if not criteria:
            return None
        parser = Marks(len(criteria))
        listed = "\n".join(f"{number}. {text}" for number, (text, _) in enumerate(criteria, start=1))
        quoted = {"prompt": prompt, "completion": completion}
        messages = self.template.fill(quoted, instruction=parser.instruction, plain={"criteria": listed})
        answers = await together(judge.verdict(messages, parser, vote=vote) for vote in range(self.votes))
        marks = [answer for answer in answers if not isinstance(answer, JudgeError)]
        if not marks:
            return next(answer for answer in answers if isinstance(answer, JudgeError))
        log.debug("%s: marks %s", self.name, marks)
        return weighted_mean(marks, [weight for _, weight in criteria])


def weighted_mean(marks: Sequence[Sequence[float]], weights: Sequence[float]) -> float:
    """``sum_c w_c m_c / sum_c |w_c|`` where m_c is the mean over votes of the mark for criterion c.

    Example:
        >>> weighted_mean([[1, 0, -1], [1, 0, 1]], [2.0, 1.0, 1.0])
        0.5
    """
    means = [sum(column) / len(column) for column in zip(*marks, strict=True)]
    total = sum(weight * mean for weight, mean in zip(weights, means, strict=True))
    return float(total / sum(map(abs, weights)))


def criteria_of(value: Any, column: str) -> tuple[Criterion, ...]:
    """The criteria that a row's column holds; none for ``None``.

    Raises:
        DataError: If it holds something else.
    """
    if value is None:
        return ()
    try:
        found = tuple(_criterion(each) for each in ([value] if isinstance(value, str) else value))
    except (TypeError, ValueError, KeyError):
        found = None
    if found is None or (found and not any(weight for _, weight in found)):
        raise DataError(column, value, "is no list of criteria", "give texts, or {criterion: TEXT, weight: NUMBER}")
    return found


def _criterion(each: Any) -> Criterion:
    if isinstance(each, str):
        return each, 1.0
    if not isinstance(each, Mapping) or not isinstance(each["criterion"], str):
        raise TypeError
    return each["criterion"], float(each.get("weight", 1.0))
