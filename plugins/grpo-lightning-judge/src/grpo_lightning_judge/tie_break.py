"""Pair judgements for groups whose rewards are all equal."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from grpo_lightning.rewards.base import Score
from grpo_lightning_judge.base import EXAMPLE, JudgeReward, Unjudged, rows_by_group
from grpo_lightning_judge.comparing import TEMPLATE, comparison
from grpo_lightning_judge.endpoint import Endpoint
from grpo_lightning_judge.failures import JudgeError
from grpo_lightning_judge.judge import Judge, together
from grpo_lightning_judge.pairing import content_order, round_robin
from grpo_lightning_judge.quoting import plain
from grpo_lightning_judge.template import SYSTEM

log = logging.getLogger(__name__)


class JudgeTieBreak(JudgeReward):
    """+1 for the winner, -1 for the loser of a pair, only in groups whose rewards are all exactly equal; else 0.

    The rewards are what the other entries come to, by their weights, without this one. A group with an unequal reward, or
    with one that abstains, gets 0 everywhere, which changes no reward. In a tied group the rows are put into disjoint
    pairs, by a hash of the texts and ``seed``; with an odd number one sits out. A pair is judged in both orders; where the
    answers disagree both get 0. Equal responses get the mean of what they got. The scores of a group sum to 0.

    Source: the tie-break of ConRub-Med, whose +1 and -1 are advantages. With an estimator that does not divide by the
    group's deviation and a weight of 1 they are so here too; one that divides makes them larger.

    Args:
        judge: Where the judge is, and how it is asked.
        votes: Judgements of each pair, each in both orders, of which the majority counts; more than one needs a temperature
            above 0.
        seed: Changes who meets whom.
        pattern: Regular expression whose one group is A, B or tie, in place of JSON; its last match counts. The template
            then says what to write.
        template: The question, with the fields ``{prompt}``, ``{a}``, ``{b}``, ``{instruction}`` and ``{nonce}``, of which
            ``{a}`` and ``{b}`` are required.
        system: The system message; empty for none.
        unjudged: What the rows of a pair without a verdict get: ``fail``, ``abstain`` or ``raise``. Under ``abstain`` their
            rewards stay as they are.
    """

    name = "judge_tie_break"
    example: ClassVar[Mapping[str, Any]] = {"judge": EXAMPLE}

    def __init__(
        self,
        *,
        judge: Endpoint,
        votes: int = 1,
        seed: int = 0,
        pattern: str | None = None,
        template: str = TEMPLATE,
        system: str = SYSTEM,
        unjudged: Unjudged = "fail",
    ) -> None:
        super().__init__(judge=judge, votes=votes, unjudged=unjudged)
        self.seed = seed
        self.comparison = comparison(system, template, pattern, votes)

    @override
    async def score(
        self, *, prompts: list[Any], completions: list[str], groups: list[int], base_rewards: list[float | None]
    ) -> Sequence[Score]:
        """One score in [-1, 1] a row."""
        judge = Judge(self.judge)
        values: list[float | JudgeError | None] = [0.0] * len(completions)
        tied = [rows for rows in rows_by_group(groups) if is_tied([base_rewards[row] for row in rows])]
        results = await together(
            self._group(judge, plain(prompts[rows[0]]), [completions[row] for row in rows]) for rows in tied
        )
        for rows, result in zip(tied, results, strict=True):
            for row, value in zip(rows, result, strict=True):
                values[row] = value
        judge.counts["tied_groups"] += len(tied)
        return self.finish(judge, values)

    async def _group(self, judge: Judge, prompt: str, texts: list[str]) -> Sequence[float | JudgeError]:
        order = content_order(texts, seed=self.seed, context=prompt)
        pairs = [(order[one], order[other]) for one, other in round_robin(len(order))[0]]
        margins = await together(
            self.comparison.margin(judge, prompt, texts[one], texts[other]) for one, other in pairs
        )
        by_text: dict[str, list[float]] = {text: [] for text in texts}
        lost: dict[str, JudgeError] = {}
        for (one, other), margin in zip(pairs, margins, strict=True):
            for row, sign in ((one, 1), (other, -1)):
                if isinstance(margin, JudgeError):
                    lost[texts[row]] = margin
                else:
                    by_text[texts[row]].append(float(sign * ((margin > 0) - (margin < 0))))
        if len(order) % 2:
            paired = {row for pair in pairs for row in pair}
            by_text[next(texts[row] for row in order if row not in paired)].append(0.0)
        means: dict[str, float | JudgeError] = {
            text: sum(values) / len(values) if values else lost[text] for text, values in by_text.items()
        }
        return [means[text] for text in texts]


def is_tied(rewards: Sequence[float | None]) -> bool:
    """Whether there are several rewards, all there and exactly equal.

    Example:
        >>> is_tied([0.1, 0.1]), is_tied([0.1, 0.2]), is_tied([0.1, None]), is_tied([0.1])
        (True, False, False, False)
    """
    return len(rewards) > 1 and rewards[0] is not None and all(reward == rewards[0] for reward in rewards)
