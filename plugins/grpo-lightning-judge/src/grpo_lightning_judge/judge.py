"""Questions of one call of a reward to a judge, asked together, with their failures counted."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import Counter
from collections.abc import Awaitable, Iterable, Sequence
from typing import TypeVar

from grpo_lightning_judge.endpoint import Endpoint
from grpo_lightning_judge.failures import JudgeError, NoVerdict
from grpo_lightning_judge.template import Message
from grpo_lightning_judge.verdicts import Parser

log = logging.getLogger(__name__)

T = TypeVar("T")
_AGAIN = "Give your verdict in the form that was asked for."


class Judge:
    """A judge as one call of a reward sees it.

    Args:
        endpoint: Where the judge is.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.counts: Counter[str] = Counter()
        """``questions``, ``requests``, ``retries``, ``reasks``, failed requests by kind, and ``unanswered`` questions."""
        self._unanswered_in_a_row = 0

    async def verdict(self, messages: Sequence[Message], parser: Parser[T], *, vote: int = 0) -> T | JudgeError:
        """The verdict on a question, or why there is none.

        Args:
            messages: The question.
            parser: What reads the verdict from the answer; an answer without one is asked about again.
            vote: Which of several answers to the same question this is.
        """
        self.counts["questions"] += 1
        try:
            verdict = await self._verdict(list(messages), parser, vote)
        except JudgeError as error:
            self.counts["unanswered"] += 1
            self.counts["gave_up"] += error.kind == "gave_up"
            # A text without a verdict is an answer: the server is there.
            self._unanswered_in_a_row = 0 if error.kind == "no_verdict" else self._unanswered_in_a_row + 1
            return error
        self._unanswered_in_a_row = 0
        return verdict

    async def _verdict(self, messages: list[Message], parser: Parser[T], vote: int) -> T:
        reason = ""
        for ask in range(self.endpoint.reasks + 1):
            self.counts["reasks"] += ask > 0
            answer = await self._answer(messages, parser, vote)
            log.debug("the judge wrote %r", answer)
            try:
                return parser.parse(answer)
            except NoVerdict as error:
                reason = str(error)
                self.counts["no_verdict"] += 1
                reminder = f"Your answer holds no verdict: {reason}. {parser.instruction or _AGAIN}"
                messages = [*messages, {"role": "assistant", "content": answer}, {"role": "user", "content": reminder}]
        raise JudgeError("no_verdict", f"{reason} (asked {self.endpoint.reasks + 1} times)")

    async def _answer(self, messages: Sequence[Message], parser: Parser[T], vote: int) -> str:
        if self.endpoint.dry_run:
            self.counts["requests"] += 1
            drawn = hashlib.sha256(f"{vote} {self.endpoint.seed} {messages}".encode()).digest()
            return parser.example(int.from_bytes(drawn[:8], "big"))
        from grpo_lightning_judge.connection import connection

        return await connection(self.endpoint).ask(
            messages, vote=vote, counts=self.counts, check=self._check_still_asking
        )

    def _check_still_asking(self) -> None:
        if self._unanswered_in_a_row >= self.endpoint.give_up_after:
            count = self._unanswered_in_a_row
            raise JudgeError("gave_up", f"the last {count} questions got no answer, so this one was not asked")


async def together(awaitables: Iterable[Awaitable[T]]) -> list[T]:
    """What each gives, all run at once; where one raises, the others are cancelled before it is passed on."""
    tasks = [asyncio.ensure_future(each) for each in awaitables]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
