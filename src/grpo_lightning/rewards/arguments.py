"""What a reward asks for, and where it comes from."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from grpo_lightning.errors import ConfigError, DataError, near_matches
from grpo_lightning.rewards.base import RESERVED_ARGUMENTS, Reward
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.types import Episode


class Requested(NamedTuple):
    """Names of the arguments of a reward."""

    required: list[str]
    optional: list[str]
    """Those with a default: handed over only if the data have such a column."""
    takes_all: bool
    """Whether it takes whatever there is."""


def requested_arguments(reward: Reward) -> Requested:
    """The names that a reward's signature asks for, and the columns that its settings name.

    Raises:
        ConfigError: If the signature cannot be read, or has an argument that cannot be given by name.

    Example:
        >>> from grpo_lightning.rewards.exact_match import ExactMatch
        >>> requested_arguments(ExactMatch(column="solution")).required
        ['completions', 'solution']
    """
    try:
        parameters = inspect.signature(reward.scorer()).parameters.values()
    except (TypeError, ValueError) as error:
        raise ConfigError("reward", reward.label, f"has no readable signature ({error})", "wrap it in a def") from None
    required: list[str] = []
    optional: list[str] = []
    takes_all = False
    for parameter in parameters:
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise ConfigError(
                "reward", reward.label, f"takes {parameter.name!r} by position only", "remove the / in it"
            )
        if parameter.kind is parameter.VAR_KEYWORD:
            takes_all = True
        elif parameter.kind is not parameter.VAR_POSITIONAL:
            (required if parameter.default is parameter.empty else optional).append(parameter.name)
    columns = reward.columns()
    required += [name for name in columns if name not in required]
    optional = [name for name in optional if name not in columns]
    return Requested(required, optional, takes_all and not columns)


def check_columns(entries: Sequence[RewardEntry], columns: Sequence[str], setting: str) -> None:
    """Check that every entry finds what it asks for among the columns of the data.

    Args:
        entries: The list of rewards.
        columns: Columns of the data; ``prompt`` may be among them, but no reward gets it under that name.
        setting: Name of the list of rewards, for messages.

    Raises:
        DataError: If a column of the data uses a reserved name.
        ConfigError: If an entry asks for what is neither reserved nor a column, with near matches.
    """
    available = [name for name in columns if name != "prompt"]
    for name in available:
        if name in RESERVED_ARGUMENTS:
            raise DataError(
                "data",
                name,
                f"is a column of the data, but rewards get {RESERVED_ARGUMENTS[name]!r} under that name",
                f"rename it, for instance with columns: {{my_{name}: {name}}}",
            )
    for index, entry in enumerate(entries):
        where = f"{setting}[{index}]"
        try:
            required = requested_arguments(entry.reward).required
        except ConfigError as error:
            raise error.under(where) from None
        for name in required:
            if name not in available and (name not in RESERVED_ARGUMENTS or name in entry.reward.columns()):
                known = available if name in entry.reward.columns() else [*available, *RESERVED_ARGUMENTS]
                asked = f"is asked for by reward {entry.reward.label!r}, but is no column of the data"
                raise ConfigError(f"{where}.reward", name, asked, near_matches(name, known))
        for name in entry.when or {}:
            if name not in available:
                raise ConfigError(f"{where}.when", name, "is no column of the data", near_matches(name, available))


def asks_for_base(entry: RewardEntry) -> bool:
    """Whether the reward asks by name for what the other entries gave."""
    required, optional, _ = requested_arguments(entry.reward)
    return "base_rewards" in {*required, *optional} - set(entry.reward.columns())


def collect_arguments(
    entry: RewardEntry,
    episodes: Sequence[Episode],
    *,
    update: int,
    stage: str,
    base_rewards: Sequence[float | None] | None = None,
) -> dict[str, Any]:
    """What the reward of ``entry`` asks for about ``episodes``.

    Args:
        entry: The entry.
        episodes: The rows.
        update: Optimizer steps taken so far.
        stage: What the rows are for.
        base_rewards: Composed reward of each row from the entries that do not ask for it.

    Raises:
        ConfigError: If a row lacks a column that it must have.
    """
    required, optional, takes_all = requested_arguments(entry.reward)
    named = set(entry.reward.columns())
    present = dict.fromkeys(name for episode in episodes for name in episode.prompt.columns)
    wanted = [*required, *(name for name in optional if name in RESERVED_ARGUMENTS or name in present)]
    if takes_all:
        named_only = {"base_rewards", *wanted}
        wanted += [name for name in (*RESERVED_ARGUMENTS, *present) if name not in named_only]
    arguments: dict[str, Any] = {}
    for name in wanted:
        if name in RESERVED_ARGUMENTS and name not in named:
            if name == "base_rewards":
                arguments[name] = [None] * len(episodes) if base_rewards is None else list(base_rewards)
            else:
                arguments[name] = _reserved(name, episodes, update, stage)
            continue
        lacking = [episode for episode in episodes if name not in episode.prompt.columns]
        if lacking and name in required:
            where = f"but data set {lacking[0].prompt.dataset!r} has no such column"
            reason = f"is asked for by reward {entry.reward.label!r}, {where}"
            raise ConfigError("reward", name, reason, "add it, or say with `when` which rows the reward is for")
        arguments[name] = [_own(episode.prompt.columns.get(name)) for episode in episodes]
    return arguments


def _own(value: Any) -> Any:
    """The value, or a copy of one that could be changed: a reward must not reach what others see."""
    return value if value is None or isinstance(value, str | int | float | bytes) else copy.deepcopy(value)


def _reserved(name: str, episodes: Sequence[Episode], update: int, stage: str) -> Any:
    if name == "update":
        return update
    if name == "stage":
        return stage
    return [_OF_EPISODE[name](episode) for episode in episodes]


_OF_EPISODE: dict[str, Callable[[Episode], Any]] = {
    "prompts": lambda episode: _own(episode.prompt.messages),
    "completions": lambda episode: episode.completion,
    "completion_ids": lambda episode: list(episode.turns[-1].token_ids) if episode.turns else [],
    "turns": lambda episode: [replace(turn, token_ids=list(turn.token_ids)) for turn in episode.turns],
    "groups": lambda episode: episode.group,
    "members": lambda episode: episode.member,
    "finish_reasons": lambda episode: episode.finish,
    "lengths": lambda episode: sum(len(turn.token_ids) for turn in episode.turns),
    "log_probs": lambda episode: list(episode.log_probs),
}
