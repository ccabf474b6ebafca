"""What can go wrong when a judge is asked."""

from __future__ import annotations

from typing import Literal

from grpo_lightning.errors import GRPOError

Kind = Literal[
    "rate_limited", "quota", "server_error", "connection", "timeout", "refused", "malformed_body", "no_answer",
    "no_verdict", "gave_up",
]  # fmt: skip
"""``rate_limited`` 429; ``quota`` 429 that no waiting mends; ``server_error`` 5xx, 408, 409; ``connection`` no connection
or one that was cut; ``timeout`` no answer in time; ``refused`` any other status; ``malformed_body`` a body that is no
chat completion; ``no_answer`` a chat completion without a text; ``no_verdict`` a text without a verdict, all re-asks
included; ``gave_up`` not asked, for too many questions before it failed."""

TRANSIENT: frozenset[Kind] = frozenset(
    {"rate_limited", "server_error", "connection", "timeout", "malformed_body", "no_answer"}
)
"""Kinds after which the same request is sent again."""


class JudgeError(GRPOError, RuntimeError):
    """A question that a judge did not answer.

    Args:
        kind: What happened, see :data:`Kind`.
        message: The same in words.
    """

    def __init__(self, kind: Kind, message: str) -> None:
        self.kind: Kind = kind
        self.message = message
        super().__init__(kind, message)

    def __str__(self) -> str:
        return f"judge failed ({self.kind}): {self.message}"


class NoVerdict(ValueError):  # noqa: N818 - it is an answer that lacks something; asking again may bring it
    """An answer of the judge that holds no verdict; the message says what it lacks."""
