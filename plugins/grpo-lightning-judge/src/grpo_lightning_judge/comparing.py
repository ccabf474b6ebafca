"""Which of two responses a judge prefers, whichever is shown first."""

from __future__ import annotations

from dataclasses import dataclass

from grpo_lightning_judge.answers import check_pattern
from grpo_lightning_judge.failures import JudgeError
from grpo_lightning_judge.judge import Judge, together
from grpo_lightning_judge.template import Template, checked_template
from grpo_lightning_judge.verdicts import Preference, Winner

TEMPLATE = """A task was set:

{prompt}

Two responses were given. Response A:

{a}

Response B:

{b}

Which response is better? Their order and their length do not matter; say tie where neither is. Reason briefly."""


@dataclass(frozen=True)
class Comparison:
    """How two responses are compared.

    Args:
        template: The question.
        parser: What reads the winner.
        votes: Pairs of answers, one for each order, that are put together.
    """

    template: Template
    parser: Preference
    votes: int

    async def margin(self, judge: Judge, prompt: str, one: str, other: str) -> float | JudgeError:
        """``(votes for one - votes for other) / votes``, in [-1, 1].

        A vote is two answers, with each of the two shown first once. It goes to whom both name, and to nobody where they
        disagree or say tie. A vote that lacks an answer does not count.

        Returns:
            The margin; 0 without asking where the responses are equal; the error where no vote was complete.
        """
        if one == other:
            return 0.0
        votes = await together(self._vote(judge, prompt, one, other, vote) for vote in range(self.votes))
        cast = [vote for vote in votes if not isinstance(vote, JudgeError)]
        if not cast:
            return next(vote for vote in votes if isinstance(vote, JudgeError))
        return sum(cast) / len(cast)

    async def _vote(self, judge: Judge, prompt: str, one: str, other: str, vote: int) -> int | JudgeError:
        first, second = await together(
            judge.verdict(self._question(prompt, a, b), self.parser, vote=vote) for a, b in ((one, other), (other, one))
        )
        if isinstance(first, JudgeError):
            return first
        if isinstance(second, JudgeError):
            return second
        judge.counts["comparisons"] += 1
        judge.counts["inconsistent"] += first == second != "tie"
        return agreed(first, second)

    def _question(self, prompt: str, a: str, b: str) -> list[dict[str, str]]:
        quoted = {"prompt": prompt, "a": a, "b": b}
        return self.template.fill(quoted, instruction=self.parser.instruction)


def agreed(first: Winner, second: Winner) -> int:
    """+1 if both answers name the one that was A in the first and B in the second, -1 for the other, else 0.

    Example:
        >>> agreed("A", "B"), agreed("B", "A"), agreed("A", "A"), agreed("A", "tie")
        (1, -1, 0, 0)
    """
    if (first, second) == ("A", "B"):
        return 1
    return -1 if (first, second) == ("B", "A") else 0


def comparison(system: str, template: str, pattern: str | None, votes: int) -> Comparison:
    """A comparison from settings.

    Raises:
        ConfigError: If the template lacks a field or has an unknown one, or the pattern is none.
    """
    check_pattern(pattern)
    checked = checked_template(system, template, required=["a", "b"], optional=["prompt"])
    return Comparison(checked, Preference(pattern), votes)
