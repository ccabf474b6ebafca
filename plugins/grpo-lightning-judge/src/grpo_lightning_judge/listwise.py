"""A judge's ranking of the whole group."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from grpo_lightning.rewards.base import Score
from grpo_lightning_judge.base import EXAMPLE, JudgeReward, Unjudged, rows_by_group
from grpo_lightning_judge.borda import borda
from grpo_lightning_judge.endpoint import Endpoint
from grpo_lightning_judge.failures import JudgeError
from grpo_lightning_judge.judge import Judge, together
from grpo_lightning_judge.pairing import content_order
from grpo_lightning_judge.quoting import plain
from grpo_lightning_judge.template import SYSTEM, checked_template
from grpo_lightning_judge.verdicts import Ranking

log = logging.getLogger(__name__)

TEMPLATE = """A task was set:

{prompt}

These responses were given, in no particular order:

{responses}

Rank all responses from the best to the worst. Their order and their length do not matter. Reason briefly."""


class JudgeListwise(JudgeReward):
    """Mean over votes of ``(n - 1 - place) / (n - 1)`` (Borda) in a judge's ranking of the group's n distinct responses.

    Each vote shows the responses in another order, drawn from the texts and ``seed``. Equal responses are shown once and get
    the same score. A group of one row abstains; one whose responses are all equal gets 0.5 without a question.

    Args:
        judge: Where the judge is, and how it is asked.
        votes: Rankings that are averaged.
        seed: Changes the orders in which responses are shown.
        template: The question, with the fields ``{prompt}``, ``{responses}``, ``{instruction}`` and ``{nonce}``, of which
            ``{responses}`` is required.
        system: The system message; empty for none.
        unjudged: What the rows of a group without a ranking get: ``fail``, ``abstain`` or ``raise``.
    """

    name = "judge_listwise"
    example: ClassVar[Mapping[str, Any]] = {"judge": EXAMPLE}

    def __init__(
        self,
        *,
        judge: Endpoint,
        votes: int = 3,
        seed: int = 0,
        template: str = TEMPLATE,
        system: str = SYSTEM,
        unjudged: Unjudged = "fail",
    ) -> None:
        super().__init__(judge=judge, votes=votes, unjudged=unjudged, votes_differ=True)
        self.seed = seed
        self.template = checked_template(system, template, required=["responses"], optional=["prompt"])

    @override
    async def score(self, *, prompts: list[Any], completions: list[str], groups: list[int]) -> Sequence[Score]:
        """One score in [0, 1] a row."""
        judge = Judge(self.judge)
        members = rows_by_group(groups)
        results = await together(
            self._group(judge, plain(prompts[rows[0]]), [completions[row] for row in rows]) for rows in members
        )
        values: list[float | JudgeError | None] = [None] * len(completions)
        for rows, result in zip(members, results, strict=True):
            for row in rows:
                values[row] = result if result is None or isinstance(result, JudgeError) else result[completions[row]]
        return self.finish(judge, values)

    async def _group(self, judge: Judge, prompt: str, texts: list[str]) -> dict[str, float] | JudgeError | None:
        """The points of each distinct response."""
        if len(texts) == 1:
            return None
        distinct = sorted(set(texts))
        if len(distinct) == 1:
            return dict.fromkeys(distinct, 0.5)
        answers = await together(self._vote(judge, prompt, distinct, vote) for vote in range(self.votes))
        rankings = [answer for answer in answers if not isinstance(answer, JudgeError)]
        if not rankings:
            return next(answer for answer in answers if isinstance(answer, JudgeError))
        log.debug("%s: rankings %s", self.name, rankings)
        return dict(zip(distinct, borda(rankings, len(distinct)), strict=True))

    async def _vote(self, judge: Judge, prompt: str, texts: list[str], vote: int) -> list[int] | JudgeError:
        """One ranking, as indices of ``texts``."""
        shown = content_order(texts, seed=self.seed, context=f"{vote} {prompt}")
        parser = Ranking(len(texts))
        quoted: dict[str, str | Sequence[str]] = {"prompt": prompt, "responses": [texts[index] for index in shown]}
        messages = self.template.fill(quoted, instruction=parser.instruction)
        ranking = await judge.verdict(messages, parser, vote=vote)
        return ranking if isinstance(ranking, JudgeError) else [shown[place] for place in ranking]
