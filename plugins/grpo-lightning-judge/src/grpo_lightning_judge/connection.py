"""One request to a judge's server, sent again where that may help.

Imported when a reward is set up only: the client takes half a second to import.
"""

from __future__ import annotations

import asyncio
import email.utils
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import openai

from grpo_lightning_judge.endpoint import Endpoint
from grpo_lightning_judge.failures import TRANSIENT, JudgeError, Kind
from grpo_lightning_judge.limits import Limits
from grpo_lightning_judge.template import Message

log = logging.getLogger(__name__)


class Connection:
    """The client of an endpoint in one event loop, with its limits.

    Args:
        endpoint: Where the judge is.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._key = endpoint.key()
        self._client = openai.AsyncOpenAI(
            api_key=self._key, base_url=endpoint.base_url, timeout=endpoint.timeout, max_retries=0
        )
        # The client takes these from the environment; they are an account's with another server.
        self._client.organization = self._client.project = None
        per_minute = endpoint.requests_per_minute
        self.limits = Limits(
            starts=None if per_minute is None else int(per_minute), concurrent=endpoint.concurrent_requests
        )

    async def ask(
        self,
        messages: Sequence[Message],
        *,
        vote: int,
        counts: Counter[str],
        check: Callable[[], None] = lambda: None,
    ) -> str:
        """What the judge writes.

        Args:
            messages: The conversation.
            vote: Added to the endpoint's seed.
            counts: Counts ``requests``, ``retries`` and each failed request by its kind.
            check: Called before each request; what it raises is passed on.

        Raises:
            JudgeError: If no request brought an answer.
        """
        for attempt in range(self.endpoint.retries + 1):
            try:
                async with self.limits.slots:
                    check()  # before the turn too, which may be a long wait
                    await self.limits.turn()
                    check()
                    counts["requests"] += 1
                    counts["retries"] += attempt > 0
                    return await self._request(messages, vote)
            except JudgeError as error:
                if error.kind == "gave_up":
                    raise
                counts[error.kind] += 1
                log.debug("request %d: %s", attempt + 1, error)
                if error.kind not in TRANSIENT or attempt == self.endpoint.retries:
                    raise
                await self._wait(error, attempt)
        raise AssertionError("the last attempt returns or raises")

    async def _request(self, messages: Sequence[Message], vote: int) -> str:
        """One request. The client's own timeout counts from byte to byte; this one bounds it as a whole."""
        try:
            async with asyncio.timeout(self.endpoint.timeout):
                answer = await self._client.chat.completions.create(**self._body(messages, vote))
        except (TimeoutError, openai.APITimeoutError):
            raise JudgeError("timeout", f"no answer within {self.endpoint.timeout:g} s") from None
        except openai.APIStatusError as error:
            raise self._status(error) from None
        except openai.APIConnectionError as error:
            cause = error.__cause__ or error
            raise JudgeError("connection", self._clean(f"{type(cause).__name__}: {cause}")) from None
        except (openai.OpenAIError, ValueError, TypeError) as error:  # what the client makes of a broken body
            raise JudgeError("malformed_body", self._clean(f"{type(error).__name__}: {error}")) from None
        return _text(answer)

    def _body(self, messages: Sequence[Message], vote: int) -> dict[str, Any]:
        endpoint = self.endpoint
        body: dict[str, Any] = {"model": endpoint.model, "messages": list(messages)}
        if endpoint.temperature is not None:
            body["temperature"] = endpoint.temperature
        if endpoint.seed is not None:
            body["seed"] = endpoint.seed + vote
        if endpoint.max_tokens is not None:
            body["max_tokens"] = endpoint.max_tokens
        if endpoint.extra:
            body["extra_body"] = dict(endpoint.extra)
        return body

    def _status(self, error: openai.APIStatusError) -> JudgeError:
        status = error.status_code
        kind: Kind = "refused"
        if status == 429:
            kind = "quota" if error.code == "insufficient_quota" else "rate_limited"
        elif status in (408, 409) or status >= 500:
            kind = "server_error"
        failure = JudgeError(kind, self._clean(f"HTTP {status}: {error.message}"))
        wait = retry_after(error.response.headers)
        if wait is None or kind not in TRANSIENT:
            return failure
        if wait > self.endpoint.longest_wait:
            limit = f"longest_wait allows {self.endpoint.longest_wait:g} s"
            return JudgeError("quota", f"{failure.message}; the server asks to wait {wait:g} s, and {limit}")
        self.limits.pause(wait)
        return failure

    async def _wait(self, error: JudgeError, attempt: int) -> None:
        if error.kind in ("rate_limited", "server_error") and self.limits.paused():
            return  # the server said how long: the limits hold the next request back
        await asyncio.sleep(min(self.endpoint.backoff * 2.0**attempt, self.endpoint.longest_wait))

    def _clean(self, text: str) -> str:
        """``text`` on one line, shortened, without the key: servers repeat it in messages."""
        line = " ".join(text.split())
        if self.endpoint.api_key_env is not None:
            line = line.replace(self._key, "***")
        return line if len(line) <= 300 else line[:297] + "..."


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that a ``Retry-After`` header asks for, given as a number or as a date; ``None`` where there is none."""
    value = headers.get("retry-after")
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
        except (TypeError, ValueError):
            return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def _text(answer: Any) -> str:
    """The text of a chat completion whose parts the client does not check."""
    choices = getattr(answer, "choices", None)
    if not isinstance(choices, list):
        raise JudgeError("malformed_body", "the body is no chat completion")
    if not choices:
        raise JudgeError("no_answer", "the chat completion has no choice")
    content = getattr(getattr(choices[0], "message", None), "content", None)
    if content is not None and not isinstance(content, str):
        raise JudgeError("malformed_body", f"the answer is of type {type(content).__name__}, not a text")
    if not content or not content.strip():
        raise JudgeError("no_answer", "the answer has no text")
    return content


_connections: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Connection]] = WeakKeyDictionary()


def connection(endpoint: Endpoint) -> Connection:
    """The connection to ``endpoint`` of the running event loop, made at its first use.

    Raises:
        ConfigError: If the key's variable is not set.
    """
    of_loop = _connections.setdefault(asyncio.get_running_loop(), {})
    if endpoint.identity not in of_loop:
        of_loop[endpoint.identity] = Connection(endpoint)
    return of_loop[endpoint.identity]
