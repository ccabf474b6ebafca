"""What became of a failed call, in words; and what a failed score means."""

from __future__ import annotations

import signal
import traceback
from pathlib import Path

from grpo_lightning.errors import RewardError
from grpo_lightning.rewards.composer import entry_name
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.scores import FailureKind, InvalidScore, RowResult, RowScore
from grpo_lightning.types import Episode

LONGEST_MESSAGE = 1000
"""Characters of a stranger's message that are passed on."""


def all_rows(rows: int, text: str, kind: FailureKind, cause: BaseException | None = None) -> list[RowResult]:
    """The failure of a call as a whole."""
    failure = InvalidScore(text, kind)
    failure.__cause__ = cause
    return [failure] * rows


def raised(error: BaseException, rows: int) -> list[RowResult]:
    """A call that raised."""
    return all_rows(rows, what_was_raised(error), "raised", error)


def timed_out(seconds: float | None, rows: int) -> list[RowResult]:
    """A call over its time."""
    return all_rows(rows, f"gave no score within {seconds:g} s", "timeout")


def what_was_raised(error: BaseException) -> str:
    """``raised KeyError: 'x' at rewards.py:12``, the place being the last of the traceback."""
    try:
        message = " ".join(str(error)[:LONGEST_MESSAGE].split()) or "no message"
    except Exception:  # an exception that cannot even be told
        message = "a message that cannot be read"
    text = f"raised {type(error).__name__}: {message}"
    places = traceback.extract_tb(error.__traceback__)
    return f"{text} at {Path(places[-1].filename).name}:{places[-1].lineno}" if places else text


def how_it_ended(code: int | None) -> str:
    """The end of a worker process, from its exit code; minus a signal's number where that killed it."""
    if code is None:
        return "lost its worker process"
    if code >= 0:
        return f"ended its worker process with exit code {code}"
    try:
        return f"lost its worker process to {signal.Signals(-code).name}"
    except ValueError:
        return f"lost its worker process to signal {-code}"


def replaced(entry: RewardEntry, episode: Episode, failure: InvalidScore) -> RowScore:
    """The score of a failed row under the entry's policy.

    Raises:
        RewardError: Under ``stop``.
    """
    if entry.on_failure == "stop":
        fix = "mend the reward, or set its on_failure to abstain, drop_group or a number"
        raise RewardError(f"{describe(entry, episode, failure)}; {fix}") from (failure.__cause__ or failure)
    return RowScore(None if isinstance(entry.on_failure, str) else float(entry.on_failure))


def describe(entry: RewardEntry, episode: Episode, failure: InvalidScore) -> str:
    """The failure with the reward's name, the row and the start of its prompt."""
    messages = episode.prompt.messages
    text = messages if isinstance(messages, str) else str(messages[-1].get("content")) if messages else ""
    start = " ".join(text.split())
    start = start if len(start) <= 60 else start[:57] + "..."
    row = f"group {episode.group}, member {episode.member}, prompt {start!r}"
    return f"reward {entry_name(entry)!r} {failure} ({row})"
