"""Calling rewards, and containing what goes wrong in them."""

from __future__ import annotations

import inspect
import logging
import traceback
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from grpo_lightning.errors import ConfigError, RewardError
from grpo_lightning.rewards.arguments import collect_arguments
from grpo_lightning.rewards.composer import counts, entry_name
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.event_loop import run_together
from grpo_lightning.rewards.scores import InvalidScore, RowScore, Scores, parse_row, split_rows
from grpo_lightning.types import Episode, Prompt

log = logging.getLogger(__name__)


@dataclass
class _Call:
    """One entry asked about the rows that it applies to."""

    entry: RewardEntry
    rows: list[int]
    episodes: list[Episode]
    returned: Any = None
    """What it returned, or the exception that it raised."""


def score_entries(entries: Sequence[RewardEntry], episodes: Sequence[Episode], *, update: int, stage: str) -> Scores:
    """Raw scores of every row by every entry.

    Every entry is called once, with all rows that it applies to; whole groups therefore, unless ``when`` divides them.
    Sync rewards are called one after another in this thread, then all async ones run together. None of them records a
    gradient.

    Args:
        entries: The list of rewards.
        episodes: Rows of whole groups.
        update: Optimizer steps taken so far.
        stage: ``train``, ``validation/NAME`` or ``test/NAME``.

    Returns:
        The scores; a failed one is replaced as its entry's ``on_failure`` says, and counted.

    Raises:
        RewardError: If a reward raises or returns something that is no score, under ``on_failure: error``.
        ConfigError: If a reward raises it, or asks for a column that a row lacks.
    """
    applies = {entry_name(entry): [applies_to(entry, each.prompt) for each in episodes] for entry in entries}
    calls = []
    for entry in entries:
        rows = [row for row, asked in enumerate(applies[entry_name(entry)]) if asked]
        if rows:
            calls.append(_Call(entry, rows, [episodes[row] for row in rows]))
    _run(calls, update, stage)
    names = list(applies)
    scores = Scores(
        raw={name: [None] * len(episodes) for name in names},
        turn_scores={name: [None] * len(episodes) for name in names},
        applies=applies,
        failures=dict.fromkeys(names, 0),
    )
    for call in calls:
        _store(call, scores)
    return scores


def applies_to(entry: RewardEntry, prompt: Prompt) -> bool:
    """Whether the columns of ``prompt`` have the values that the entry's ``when`` asks for; 7 and "7" are equal."""
    for column, wanted in (entry.when or {}).items():
        if column not in prompt.columns:
            return False
        value = prompt.columns[column]
        allowed = wanted if isinstance(wanted, list | tuple) else [wanted]
        if not any(_same(value, each) for each in allowed):
            return False
    return True


def _same(value: Any, wanted: Any) -> bool:
    if value is None or wanted is None:
        return value is wanted
    return bool(value == wanted) or str(value) == str(wanted)


def _run(calls: Sequence[_Call], update: int, stage: str) -> None:
    """Fill in what each call returned."""
    waiting: list[tuple[_Call, Callable[[], Awaitable[Any]]]] = []
    with torch.no_grad():
        for call in calls:
            arguments = collect_arguments(call.entry, call.episodes, update=update, stage=stage)
            score: Callable[[], Any] = partial(call.entry.reward.score, **arguments)
            if _is_async(call.entry.reward.scorer()):
                waiting.append((call, score))
                continue
            try:
                call.returned = score()
            except ConfigError:
                raise
            except Exception as error:
                call.returned = error
            if inspect.isawaitable(call.returned):
                waiting.append((call, partial(_itself, call.returned)))
    for (call, _), returned in zip(waiting, run_together([start for _, start in waiting]), strict=True):
        call.returned = returned


def _is_async(function: Callable[..., Any]) -> bool:
    while isinstance(function, partial):
        function = function.func
    return any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))


async def _itself(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def _store(call: _Call, scores: Scores) -> None:
    """Check what a call returned and lay it in ``scores``."""
    name = entry_name(call.entry)
    for row, episode, value in zip(call.rows, call.episodes, _values(call), strict=True):
        try:
            if isinstance(value, InvalidScore):
                raise value
            parsed = parse_row(value, len(episode.turns))
        except InvalidScore as error:
            parsed = _replace(call, episode, error)
            if not scores.failures[name]:
                log.warning("%s", _describe(call, episode, error))
            scores.failures[name] += 1
        scores.raw[name][row], scores.turn_scores[name][row] = parsed.total, parsed.turns
        if counts(call.entry):
            scores.epsilon = max(scores.epsilon, parsed.epsilon)


def _values(call: _Call) -> list[Any]:
    """One value a row; where the call failed as a whole, the failure for each."""
    if isinstance(call.returned, ConfigError):
        raise call.returned
    if isinstance(call.returned, Exception):
        cause = f"raised {type(call.returned).__name__}: {' '.join(str(call.returned).split()) or 'no message'}"
        places = traceback.extract_tb(call.returned.__traceback__)
        if places:
            cause += f" at {Path(places[-1].filename).name}:{places[-1].lineno}"
        return [InvalidScore(cause)] * len(call.rows)
    try:
        return split_rows(call.returned, len(call.rows))
    except InvalidScore as error:
        return [error] * len(call.rows)


def _replace(call: _Call, episode: Episode, error: InvalidScore) -> RowScore:
    if call.entry.on_failure == "error":
        cause = call.returned if isinstance(call.returned, Exception) else error
        fix = "mend the reward, or set its on_failure to abstain or zero"
        raise RewardError(f"{_describe(call, episode, error)}; {fix}") from cause
    return RowScore(0.0 if call.entry.on_failure == "zero" else None)


def _describe(call: _Call, episode: Episode, error: InvalidScore) -> str:
    messages = episode.prompt.messages
    text = messages if isinstance(messages, str) else str(messages[-1].get("content")) if messages else ""
    start = " ".join(text.split())
    start = start if len(start) <= 60 else start[:57] + "..."
    return (
        f"reward {entry_name(call.entry)!r} {error} (group {episode.group}, member {episode.member}, prompt {start!r})"
    )
