"""What sampling gives before anything is scored, and how it is kept in a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from grpo_lightning.policies.base import Policy
from grpo_lightning.rollout.play import Group
from grpo_lightning.types import Episode, FinishReason, Rollouts, Turn

Rows = tuple[Rollouts, list[Episode]]


@dataclass(frozen=True)
class Played:
    """The rows of some groups as they were sampled."""

    sampled: Rows
    greedy: Rows | None
    """One greedy row a group, for an estimator that asks for it."""
    seconds: float
    """Time that sampling took."""

    def state_dict(self) -> dict[str, Any]:
        """Flat tensors, and what environments said."""
        greedy = None if self.greedy is None else _rows_state(self.greedy)
        return {"sampled": _rows_state(self.sampled), "greedy": greedy, "seconds": self.seconds}

    @classmethod
    def from_state_dicts(cls, states: Sequence[Mapping[str, Any]], groups: Sequence[Group], policy: Policy) -> Played:
        """The rows of ``groups``, in that order, of what one or several ranks have saved."""
        greedy = None if states[0]["greedy"] is None else _rows([each["greedy"] for each in states], groups, policy)
        seconds = max(float(each["seconds"]) for each in states)
        return cls(_rows([each["sampled"] for each in states], groups, policy), greedy, seconds)


def _rows_state(rows: Rows) -> dict[str, Any]:
    rollouts, episodes = rows
    # The texts and tokens of turns follow from the steps.
    turns = [[[turn.observation, turn.reward, turn.state] for turn in episode.turns] for episode in episodes]
    return {"rollouts": rollouts.state_dict(), "turns": turns}


def _rows(states: Sequence[Mapping[str, Any]], groups: Sequence[Group], policy: Policy) -> Rows:
    whole = Rollouts.cat([Rollouts.from_state_dict(each["rollouts"]) for each in states])
    turns = [row for each in states for row in each["turns"]]
    picked = torch.cat([(whole.group_R == group.ordinal).nonzero().squeeze(1) for group in groups])
    rollouts = whole.select(picked).without_unused_prompts()
    by_ordinal = {group.ordinal: group for group in groups}
    episodes = []
    for row, index in enumerate(picked.tolist()):
        group = by_ordinal[int(rollouts.group_R[row])]
        episodes.append(_episode(rollouts, row, turns[index], group, policy))
    return rollouts, episodes


def _episode(rollouts: Rollouts, row: int, said: Sequence[Sequence[Any]], group: Group, policy: Policy) -> Episode:
    episode = Episode(group.prompt, group.ordinal, int(rollouts.member_R[row]))
    steps = rollouts.trainable_steps(torch.tensor([row]))
    tokens, turn_S = rollouts.actions.values[steps], rollouts.turn_S[steps]
    for index, (observation, reward, state) in enumerate(said):
        written = tokens[turn_S == index].tolist()
        last = index == len(said) - 1
        finish = FinishReason(int(rollouts.finish_R[row])) if last else FinishReason.STOP
        episode.turns.append(Turn(written, policy.decode(written), finish, observation, reward, state))
    episode.log_probs = rollouts.behaviour_log_probs_S[steps].tolist()
    return episode
