"""Wins within the group, by a judge that compares two responses at a time."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from grpo_lightning.errors import require_range
from grpo_lightning.rewards.base import Score
from grpo_lightning_judge.acyclic import acyclic_credits
from grpo_lightning_judge.base import EXAMPLE, JudgeReward, Unjudged, rows_by_group
from grpo_lightning_judge.comparing import TEMPLATE, comparison
from grpo_lightning_judge.endpoint import Endpoint
from grpo_lightning_judge.failures import JudgeError
from grpo_lightning_judge.judge import Judge, together
from grpo_lightning_judge.pairing import content_order, round_robin
from grpo_lightning_judge.quoting import plain
from grpo_lightning_judge.template import SYSTEM
from grpo_lightning_judge.wins import credits_of, rewards_of

log = logging.getLogger(__name__)


class JudgePairwise(JudgeReward):
    """``alpha sum_(j != i) [o_i beats o_j]`` over the group (SCR): wins against the other responses to the prompt.

    Every pair is judged in both orders; who wins must win both, otherwise it is a tie. Equal responses tie without a
    question, and each distinct pair is judged once. A group of one row abstains. Where comparisons run in circles
    (a over b over c over a), those of least weight are turned round first.

    Source: rewards from ranks (RRC): self-comparison reward.

    Args:
        judge: Where the judge is, and how it is asked.
        votes: Judgements of each pair, each in both orders, of which the majority counts; more than one needs a temperature
            above 0.
        rounds: Rounds of a tournament in which everybody meets one other (with an odd number one sits out); null for all.
            Wins are then scaled up to all opponents.
        alpha: Reward of one win.
        normalise: Give the share of opponents that were beaten, in [0, 1], in place of ``alpha`` times their number.
        tie_value: Wins that a tie counts for, in [0, 1]; 0.5 shares the win.
        acyclic: Make the tournament acyclic.
        seed: Changes who meets whom when ``rounds`` is set.
        pattern: Regular expression whose one group is A, B or tie, in place of JSON; its last match counts. The template
            then says what to write.
        template: The question, with the fields ``{prompt}``, ``{a}``, ``{b}``, ``{instruction}`` and ``{nonce}``, of which
            ``{a}`` and ``{b}`` are required.
        system: The system message; empty for none.
        unjudged: What a row gets none of whose comparisons got a verdict: ``fail``, ``abstain`` or ``raise``.
    """

    name = "judge_pairwise"
    example: ClassVar[Mapping[str, Any]] = {"judge": EXAMPLE}

    def __init__(
        self,
        *,
        judge: Endpoint,
        votes: int = 1,
        rounds: int | None = None,
        alpha: float = 1.0,
        normalise: bool = True,
        tie_value: float = 0.0,
        acyclic: bool = True,
        seed: int = 0,
        pattern: str | None = None,
        template: str = TEMPLATE,
        system: str = SYSTEM,
        unjudged: Unjudged = "fail",
    ) -> None:
        super().__init__(judge=judge, votes=votes, unjudged=unjudged)
        if rounds is not None:
            require_range("rounds", rounds, low=1)
        require_range("alpha", alpha, low_open=True, high_open=True)
        require_range("tie_value", tie_value, low=0, high=1)
        self.rounds, self.alpha, self.normalise, self.tie_value = rounds, alpha, normalise, tie_value
        self.acyclic, self.seed = acyclic, seed
        self.comparison = comparison(system, template, pattern, votes)

    @override
    async def score(self, *, prompts: list[Any], completions: list[str], groups: list[int]) -> Sequence[Score]:
        """One score a row: in [0, 1], or in [0, alpha (G - 1)] for a group of G without ``normalise``."""
        judge = Judge(self.judge)
        members = rows_by_group(groups)
        results = await together(
            self._group(judge, plain(prompts[rows[0]]), [completions[row] for row in rows]) for rows in members
        )
        values: list[float | JudgeError | None] = [None] * len(completions)
        for rows, result in zip(members, results, strict=True):
            for row, value in zip(rows, result, strict=True):
                values[row] = value
        return self.finish(judge, values)

    async def _group(self, judge: Judge, prompt: str, texts: list[str]) -> Sequence[float | JudgeError | None]:
        """The reward of each response of a group."""
        if len(texts) == 1:
            return [None]
        # In an order that the texts decide: the greedy order of large circles breaks ties by it.
        order = content_order(texts, seed=self.seed, context=prompt)
        margins, error = await self._margins(judge, prompt, [texts[index] for index in order])
        earned = (acyclic_credits if self.acyclic else credits_of)(margins, self.tie_value)
        opponents = len(texts) - 1
        rewards = rewards_of(earned, opponents=opponents, alpha=self.alpha, normalise=self.normalise)
        by_text = _mean_by_text([texts[index] for index in order], rewards)
        # Nobody met is an error if a question failed; else it sat out, and has no score.
        return [error if by_text[text] is None else by_text[text] for text in texts]

    async def _margins(
        self, judge: Judge, prompt: str, texts: list[str]
    ) -> tuple[list[list[float | None]], JudgeError | None]:
        """The result of every pair that meets, and one of the errors if there was one."""
        pairs = [pair for drawn in round_robin(len(texts))[: self.rounds] for pair in drawn]
        keys = [tuple(sorted((texts[one], texts[other]))) for one, other in pairs]
        distinct = list(dict.fromkeys(keys))
        found = await together(self.comparison.margin(judge, prompt, low, high) for low, high in distinct)
        by_pair = dict(zip(distinct, found, strict=True))
        margins: list[list[float | None]] = [[None] * len(texts) for _ in texts]
        error = None
        for (one, other), key in zip(pairs, keys, strict=True):
            margin = by_pair[key]
            if isinstance(margin, JudgeError):
                error = margin
                continue
            signed = margin if texts[one] == key[0] else -margin
            margins[one][other], margins[other][one] = signed, -signed
        return margins, error


def _mean_by_text(texts: Sequence[str], rewards: Sequence[float | None]) -> dict[str, float | None]:
    """The mean reward of equal texts: they meet others by chance, and pull the same way."""
    of_text: dict[str, list[float]] = {text: [] for text in texts}
    for text, reward in zip(texts, rewards, strict=True):
        if reward is not None:
            of_text[text].append(reward)
    return {text: sum(values) / len(values) if values else None for text, values in of_text.items()}
