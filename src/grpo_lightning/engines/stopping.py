"""When a row stops: stop ids, stop strings, its limit."""

from __future__ import annotations

from collections.abc import Sequence

from grpo_lightning.policies.base import Policy
from grpo_lightning.types import FinishReason


def finish_of(
    policy: Policy, tokens: Sequence[int], limit: int, stop_ids: frozenset[int], stop_strings: Sequence[str]
) -> FinishReason | None:
    """Why a row that has just written the last of ``tokens`` ends now, or ``None`` if it goes on."""
    if tokens[-1] in stop_ids:
        return FinishReason.STOP
    # A stop string ends with the last token, so only a tail as long as the string in tokens can hold it first now;
    # several characters of a string can share a token, never the other way round but for bytes of one character.
    for text in stop_strings:
        tail = tokens[-(4 * len(text) + 4) :]
        if text in policy.decode(tail):
            return FinishReason.STOP
    return FinishReason.LENGTH if len(tokens) >= limit else None


def cut_at_stop(
    policy: Policy, tokens: Sequence[int], limit: int, stop_ids: frozenset[int], stop_strings: Sequence[str]
) -> tuple[int, FinishReason]:
    """Length at which a finished row of ``tokens`` had to stop, and why."""
    for length in range(1, len(tokens) + 1):
        finish = finish_of(policy, tokens[:length], limit, stop_ids, stop_strings)
        if finish is not None:
            return length, finish
    return len(tokens), FinishReason.LENGTH
