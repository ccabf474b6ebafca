"""Asking a reward for scores, as a run does."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from grpo_lightning.errors import ConfigError, near_matches
from grpo_lightning.rewards.arguments import collect_arguments, requested_arguments
from grpo_lightning.rewards.base import RESERVED_ARGUMENTS, Reward
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.scores import InvalidScore, RowScore, parse_row, split_rows
from grpo_lightning.testing.check import Nonconformity, Specimen
from grpo_lightning.testing.episodes import episodes
from grpo_lightning.testing.global_state import preserved_globals
from grpo_lightning.types import Episode


def ready(specimen: Specimen) -> Reward:
    """A new reward, set up as before the first rollout."""
    reward: Reward = specimen.make()
    reward.setup()
    return reward


def arguments_of(reward: Reward, rows: Sequence[Episode]) -> dict[str, Any]:
    """What the reward asks for about some rows."""
    return collect_arguments(RewardEntry(reward=reward), rows, update=3, stage="train")


def ask(reward: Reward, arguments: dict[str, Any]) -> Any:
    """What the reward returns, awaited if need be, without a gradient."""
    with torch.no_grad():
        returned = reward.score(**arguments)
        return _awaited(returned) if inspect.isawaitable(returned) else returned


def score(reward: Reward, rows: Sequence[Episode]) -> list[float | list[float | None] | None]:
    """The score of each row: a number, ``None``, or one for each turn.

    Raises:
        Nonconformity: If what the reward returned is no list of scores.
    """
    returned = ask(reward, arguments_of(reward, rows))
    try:
        parsed = [
            _parsed(value, row) for value, row in zip(split_rows(_detached(returned), len(rows)), rows, strict=True)
        ]
    except InvalidScore as error:
        raise Nonconformity(
            f"A reward gives each row, in order, a finite number, None to abstain, or a list with one of these for each turn. "
            f"Found: it {error}. To mend it: return a list as long as completions; NaN and infinity are no scores."
        ) from None
    return [each.total if each.turns is None else each.turns for each in parsed]


def unknown_arguments(specimen: Specimen) -> str | None:
    """What a reward asks for that is neither reserved nor a column of the specimen, in words; ``None`` if nothing."""
    reward: Reward = specimen.make()
    try:
        required = requested_arguments(reward).required
    except ConfigError as error:
        return str(error)
    known = [*specimen.columns, *RESERVED_ARGUMENTS]
    for name in required:
        column = name in reward.columns()
        if name not in specimen.columns and (column or name not in RESERVED_ARGUMENTS):
            return f"it asks for {name!r}, {near_matches(name, specimen.columns if column else known)}"
    return None


def scorable(specimen: Specimen) -> bool:
    """Whether a reward scores ordinary rows at all; checks of their own tell why not."""
    if unknown_arguments(specimen) is not None:
        return False
    try:
        with preserved_globals():
            score(ready(specimen), episodes(specimen.columns))
    except Exception:  # the reward's
        return False
    return True


def _parsed(value: Any, row: Episode) -> RowScore:
    return parse_row(_detached(value), len(row.turns))


def _detached(value: Any) -> Any:
    # A gradient is the business of a check of its own.
    if isinstance(value, Tensor):
        return value.detach()
    return [_detached(each) for each in value] if isinstance(value, list | tuple) else value


def _awaited(awaitable: Any) -> Any:
    async def wait() -> Any:
        return await awaitable

    return asyncio.run_coroutine_threadsafe(wait(), _loop()).result()


@cache
def _loop() -> asyncio.AbstractEventLoop:
    # One for all calls, as in a run: a client that a reward keeps belongs to its loop.
    loop = asyncio.new_event_loop()

    def run() -> None:
        torch.set_grad_enabled(False)  # grad mode belongs to a thread
        loop.run_forever()

    threading.Thread(target=run, name="grpo_lightning.testing rewards", daemon=True).start()
    return loop
