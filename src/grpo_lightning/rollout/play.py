"""Playing episodes: the policy writes turns, the environment answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from grpo_lightning.engines.base import Completions, Engine, GenerationRequest, RowEnd
from grpo_lightning.environments.base import Environment
from grpo_lightning.errors import require
from grpo_lightning.policies.base import Policy
from grpo_lightning.samplers.base import Sampler
from grpo_lightning.types import Episode, FinishReason, Prompt, Ragged, Rollouts, Turn

Recorder = Callable[[GenerationRequest, Completions], object]
Finished = Callable[[Sequence[Episode]], object]
"""Hears of the rows of a group that is over, while others may still be written."""


@dataclass(frozen=True)
class Group:
    """Prompt of a group, ready to be sampled from."""

    ordinal: int
    prompt: Prompt
    tokens: Tensor
    """[length] int64."""


@dataclass(frozen=True)
class PlaySettings:
    """What does not change from rollout to rollout."""

    policy: Policy
    engine: Engine
    environment: Environment
    sampler: Sampler
    members: int
    max_new_tokens: int
    stop: Sequence[str]
    seed: int
    stream: str
    recorder: Recorder | None = None


@dataclass
class _Row:
    """A row while it is played."""

    episode: Episode
    group: Group
    address: tuple[int, int, int, int]
    """(rollout, group ordinal, attempt, member)."""
    actions: list[int] = field(default_factory=list)
    trainable: list[bool] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    supports: list[Tensor] = field(default_factory=list)
    finish: FinishReason = FinishReason.STOP
    version: int = 0
    state: str | None = None
    """Key of the state in which the next turn begins."""
    over: bool = False
    """The environment has had its last word."""


@torch.no_grad()
def play(
    settings: PlaySettings,
    groups: Sequence[Group],
    *,
    rollout: int,
    attempt: int,
    version: int,
    finished: Finished | None = None,
) -> tuple[Rollouts, list[Episode]]:
    """Sample every member of ``groups``, turn by turn.

    Args:
        settings: Who plays.
        groups: The groups, of one rank.
        rollout: Index of the rollout.
        attempt: How often the groups were drawn before in this rollout.
        version: Optimizer steps that the current weights have seen.
        finished: Hears of each group that is over: after the turn that was its last or, where episodes have one turn and the
            engine tells of rows that have ended, while others are still generated. No result depends on it.

    Returns:
        The rows, groups in the given order and members in theirs, and their episodes.
    """
    rows = [
        _Row(Episode(group.prompt, group.ordinal, member), group, (rollout, group.ordinal, attempt, member))
        for group in groups
        for member in range(settings.members)
    ]
    environment = settings.environment
    states = environment.start([row.episode for row in rows])
    for row, state in zip(rows, states or [None] * len(rows), strict=True):
        row.state = state
    watch = None if finished is None else _Watch(settings, rows, finished)
    live = rows
    for turn in range(environment.max_turns):
        if not live:
            break
        _write_turn(
            settings, groups, live, turn, version, watch.ended if watch and environment.max_turns == 1 else None
        )
        live = _answer(settings, [row for row in live if not row.over], turn)
        if watch is not None:
            watch.tell()
    rollouts = _rollouts(settings, groups, rows, attempt)
    return rollouts, [row.episode for row in rows]


class _Watch:
    """Tells of groups as soon as they are over."""

    def __init__(self, settings: PlaySettings, rows: Sequence[_Row], finished: Finished) -> None:
        self._settings, self._rows, self._finished = settings, rows, finished
        self._groups: dict[int, list[_Row]] = {}
        for row in rows:
            self._groups.setdefault(row.group.ordinal, []).append(row)

    def ended(self, end: RowEnd) -> None:
        """A row of episodes of one turn has been written; the last one of a group lets the environment answer them all."""
        row = self._rows[end.row]
        _write(self._settings.policy, row, end.tokens, end.log_probs, end.finish)
        group = self._groups[row.group.ordinal]
        if all(each.episode.turns for each in group):
            _answer(self._settings, group, 0)
            self.tell()

    def tell(self) -> None:
        """Tell of the groups that are over and have not been told of."""
        for ordinal in [ordinal for ordinal, rows in self._groups.items() if all(row.over for row in rows)]:
            self._finished([row.episode for row in self._groups.pop(ordinal)])


def _write_turn(
    settings: PlaySettings,
    groups: Sequence[Group],
    live: Sequence[_Row],
    turn: int,
    version: int,
    ended: Callable[[RowEnd], None] | None,
) -> None:
    policy = settings.policy
    if turn == 0:
        contexts = [group.tokens for group in groups]
        index = {group.ordinal: position for position, group in enumerate(groups)}
        context_Q = torch.tensor([index[row.group.ordinal] for row in live])
    else:
        contexts = [torch.cat([row.group.tokens, torch.tensor(row.actions)]) for row in live]
        context_Q = torch.arange(len(live))
    room = [policy.context_length - contexts[index].shape[0] for index in context_Q.tolist()]
    request = GenerationRequest(
        contexts=Ragged.from_list(contexts, torch.int64),
        context_Q=context_Q,
        address_QA=torch.tensor([[*row.address, turn] for row in live]),
        sampler=settings.sampler,
        seed=settings.seed,
        stream=settings.stream,
        limit_Q=torch.tensor([min(settings.max_new_tokens, free) for free in room]),
        stop_ids=policy.stop_ids | policy.stop_ids_of(settings.stop),
        stop_strings=settings.stop,
        version=version,
        ended=ended,
    )
    completions = settings.engine.generate(policy, request)
    if settings.recorder is not None:
        settings.recorder(request, completions)
    _append(policy, live, completions, turn, version)


def _append(policy: Policy, live: Sequence[_Row], completions: Completions, turn: int, version: int) -> None:
    tokens, log_probs, finish = (
        completions.tokens.tolist(),
        completions.log_probs.tolist(),
        completions.finish_Q.tolist(),
    )
    offsets, supports = completions.tokens.offsets.tolist(), _supports(completions)
    for index, row in enumerate(live):
        count = len(tokens[index])
        row.actions += tokens[index]
        row.trainable += [True] * count
        row.turns += [turn] * count
        row.log_probs += log_probs[index]
        row.supports += supports[offsets[index] : offsets[index] + count]
        row.version = version if completions.version is None else completions.version
        if len(row.episode.turns) <= turn:
            _write(policy, row, tokens[index], log_probs[index], finish[index])


def _write(policy: Policy, row: _Row, tokens: list[int], log_probs: list[float], finish: int) -> None:
    """The episode's part of a turn."""
    row.finish = FinishReason(finish)
    row.episode.turns.append(Turn(tokens, policy.decode(tokens), row.finish, state=row.state))
    row.episode.log_probs += log_probs


def _supports(completions: Completions) -> list[Tensor]:
    if completions.support is None:
        return [torch.zeros(0, dtype=torch.int32)] * completions.tokens.values.shape[0]
    return list(torch.split(completions.support.values, completions.support.lengths().tolist()))


def _answer(settings: PlaySettings, live: Sequence[_Row], turn: int) -> list[_Row]:
    """Let the environment answer, and return the rows that go on."""
    policy, environment = settings.policy, settings.environment
    going: list[_Row] = []
    if not live:
        return going
    for row in live:
        row.over = True
    for row, observation in zip(live, environment.step([row.episode for row in live]), strict=True):
        written = row.episode.turns[-1]
        written.reward, row.state = observation.reward, observation.state
        if observation.text is None or row.finish is FinishReason.LENGTH:
            continue
        text, tokens = _shown(settings, row, observation.text)
        used = row.group.tokens.shape[0] + len(row.actions) + tokens.shape[0]
        if turn == environment.max_turns - 1 or used >= policy.context_length:
            # The environment would go on and cannot: the row is truncated.
            row.finish = written.finish = FinishReason.LENGTH
            continue
        written.observation = text
        count = tokens.shape[0]
        row.actions += tokens.tolist()
        row.trainable += [False] * count
        row.turns += [turn] * count
        row.log_probs += [0.0] * count
        row.supports += [torch.zeros(0, dtype=torch.int32)] * count
        row.over = False
        going.append(row)
    return going


def _shown(settings: PlaySettings, row: _Row, text: str) -> tuple[str, Tensor]:
    """An observation and its tokens, its end cut to the environment's limit; what opens the next turn is kept.

    Raises:
        ConfigError: If the limit leaves no room for any text.
    """
    most, written = settings.environment.max_observation_tokens, row.episode.turns[-1].token_ids

    def encode(length: int) -> Tensor:
        return settings.policy.encode_observation(row.group.prompt, text[:length], written)

    tokens, fits, cut = encode(len(text)), 0, len(text) + 1
    if tokens.shape[0] <= most:
        return text, tokens
    overhead = encode(0).shape[0]
    require(overhead <= most, "model.environment.max_observation_tokens", most,
            f"is below what the chat template writes around an answer ({overhead} tokens)", "raise it")  # fmt: skip
    while cut - fits > 1:
        middle = (fits + cut) // 2
        fits, cut = (middle, cut) if encode(middle).shape[0] <= most else (fits, middle)
    return text[:fits], encode(fits)


def _rollouts(settings: PlaySettings, groups: Sequence[Group], rows: Sequence[_Row], attempt: int) -> Rollouts:
    index = {group.ordinal: position for position, group in enumerate(groups)}
    group_R = torch.tensor([row.group.ordinal for row in rows], dtype=torch.int64)
    member_R = torch.tensor([row.episode.member for row in rows], dtype=torch.int64)
    restricted = any(support.numel() for row in rows for support in row.supports)
    supports = [support for row in rows for support in row.supports]
    return Rollouts(
        prompts=Ragged.from_list([group.tokens for group in groups], torch.int64),
        prompt_R=torch.tensor([index[row.group.ordinal] for row in rows], dtype=torch.int64),
        group_R=group_R,
        member_R=member_R,
        trajectory_R=group_R * settings.members + member_R,
        attempt_R=torch.full_like(group_R, attempt),
        finish_R=torch.tensor([int(row.finish) for row in rows], dtype=torch.int64),
        temperature_R=torch.full((len(rows),), settings.sampler.temperature, dtype=torch.float32),
        version_R=torch.tensor([row.version for row in rows], dtype=torch.int64),
        actions=Ragged.from_list([row.actions for row in rows], torch.int64),
        trainable_S=torch.tensor([flag for row in rows for flag in row.trainable], dtype=torch.bool),
        turn_S=torch.tensor([turn for row in rows for turn in row.turns], dtype=torch.int64),
        behaviour_log_probs_S=torch.tensor([value for row in rows for value in row.log_probs], dtype=torch.float32),
        support=Ragged.from_list(supports, torch.int32) if restricted else None,
    )
