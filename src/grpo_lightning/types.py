"""Data that passes between the parts, and the legend of shapes.

Shape suffixes of tensor names, used everywhere:

====== =========================================================================================
``R``  rows: one completion of one prompt, possibly of many turns
``S``  steps of all rows, end to end (for a causal language model a step is a token)
``G``  groups of a rollout, in order of their ordinal
``P``  distinct prompts of a rollout
``Q``  generation requests (a row in one turn)
``V``  entries of a vocabulary, or of whatever a step chooses from
====== =========================================================================================

Nothing is padded at rest: sequences of different lengths are a :class:`Ragged`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from typing import Any

import torch
from torch import Tensor

from grpo_lightning.functional.ragged import Ragged as Ragged
from grpo_lightning.functional.ragged import offsets_from_lengths as offsets_from_lengths
from grpo_lightning.rollout_table import RolloutTable as RolloutTable


class FinishReason(IntEnum):
    """Why a row ended."""

    STOP = 0  #: the policy ended it: a stop id, a stop string, or the environment said that the episode is over
    LENGTH = 1  #: it met a limit on length or turns: the row is truncated


@dataclass(frozen=True)
class Rollouts:
    """What a policy did, rows of one rank, on the CPU.

    ``prompts`` and ``actions`` mean what the policy says they mean: token ids for a causal language model.
    """

    prompts: Ragged
    """[P] sequences: what each distinct prompt conditions the policy on."""
    prompt_R: Tensor
    """[R] int64: index into ``prompts``; members of a group may differ in it, two groups may share one."""
    group_R: Tensor
    """[R] int64: ordinal of the group in the whole rollout, over all ranks."""
    member_R: Tensor
    """[R] int64: index of the row in its group."""
    trajectory_R: Tensor
    """[R] int64: rows that are parts of one episode share it; ``group * group_size + member`` where a row is an episode."""
    attempt_R: Tensor
    """[R] int64: how often the group had been drawn before in this rollout."""
    finish_R: Tensor
    """[R] int64: :class:`FinishReason`."""
    temperature_R: Tensor
    """[R] float32: what logits are divided by, when sampling and when scoring."""
    version_R: Tensor
    """[R] int64: number of updates that the weights had seen which sampled the row."""
    actions: Ragged
    """[R] sequences of steps: all that follows the prompt, the environment's part included."""
    trainable_S: Tensor
    """[S] bool: the policy wrote this step (and not the environment)."""
    turn_S: Tensor
    """[S] int64: turn that the step belongs to, from 0."""
    behaviour_log_probs_S: Tensor
    """[S] float32: log-probability under the distribution really sampled from; 0 where not trainable."""
    support: Ragged | None = None
    """[S] sequences of int32 ids, ascending: what the step could choose from. An empty one means everything; ``None``
    means everything for every step."""
    extras: Mapping[str, Ragged] = field(default_factory=dict)
    """[P] sequences by name: further inputs of a prompt (pixels, say) that pass through unread."""

    def __len__(self) -> int:
        return self.prompt_R.shape[0]

    @property
    def row_S(self) -> Tensor:
        """[S] int64: row of each step."""
        return torch.repeat_interleave(torch.arange(len(self)), self.actions.lengths())

    @property
    def lengths_R(self) -> Tensor:
        """[R] int64: trainable steps of each row."""
        return torch.zeros(len(self), dtype=torch.int64).index_add_(0, self.row_S, self.trainable_S.to(torch.int64))

    def trainable_steps(self, rows: Tensor) -> Tensor:
        """int64 indices of the trainable steps of ``rows``, rows in that order."""
        steps = self.actions.positions(rows)
        return steps[self.trainable_S[steps]]

    def select(self, rows: Tensor) -> Rollouts:
        """The rows ``rows``, in that order. Prompts are kept whole, so that ``prompt_R`` stays valid."""
        steps = self.actions.positions(rows)
        changed: dict[str, Any] = {"actions": self.actions.select(rows)}
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name.endswith("_R"):
                changed[item.name] = value[rows]
            elif item.name.endswith("_S"):
                changed[item.name] = value[steps]
        if self.support is not None:
            changed["support"] = self.support.select(steps)
        return replace(self, **changed)

    def without_unused_prompts(self) -> Rollouts:
        """The same rows; prompts that none of them has are left out, and so are their further inputs."""
        used, prompt_R = torch.unique(self.prompt_R, return_inverse=True)
        extras = {name: each.select(used) for name, each in self.extras.items()}
        return replace(self, prompts=self.prompts.select(used), prompt_R=prompt_R, extras=extras)

    @staticmethod
    def cat(parts: Sequence[Rollouts]) -> Rollouts:
        """The rows of all ``parts``, in order; their prompts are laid end to end and ``prompt_R`` is moved along."""
        shifts = [0]
        for part in parts:
            shifts.append(shifts[-1] + len(part.prompts))
        merged: dict[str, Any] = {
            "prompts": Ragged.cat([part.prompts for part in parts]),
            "actions": Ragged.cat([part.actions for part in parts]),
        }
        for item in fields(Rollouts):
            if item.name.endswith(("_R", "_S")):
                merged[item.name] = torch.cat([getattr(part, item.name) for part in parts])
        merged["prompt_R"] = torch.cat([part.prompt_R + shift for part, shift in zip(parts, shifts, strict=False)])
        if any(part.support is not None for part in parts):
            merged["support"] = Ragged.cat([part.support or _full_support(part) for part in parts])
        names = {name for part in parts for name in part.extras}
        merged["extras"] = {name: Ragged.cat([part.extras[name] for part in parts]) for name in names}
        return Rollouts(**merged)

    def state_dict(self) -> dict[str, Any]:
        """Tensors only, so that a checkpoint loads with ``weights_only=True``."""
        state: dict[str, Any] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, Ragged):
                value = {"values": value.values, "offsets": value.offsets}
            elif item.name == "extras":
                value = {name: {"values": each.values, "offsets": each.offsets} for name, each in value.items()}
            state[item.name] = value
        return state

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Any]) -> Rollouts:
        """The inverse of :meth:`state_dict`."""
        values: dict[str, Any] = dict(state)
        for name in ("prompts", "actions", "support"):
            if values.get(name) is not None:
                values[name] = Ragged(values[name]["values"], values[name]["offsets"])
        values["extras"] = {name: Ragged(each["values"], each["offsets"]) for name, each in state["extras"].items()}
        return cls(**values)


def _full_support(rollouts: Rollouts) -> Ragged:
    steps = rollouts.trainable_S.shape[0]
    return Ragged(torch.zeros(0, dtype=torch.int32), torch.zeros(steps + 1, dtype=torch.int64))


@dataclass(frozen=True)
class Prompt:
    """One row of a data set, ready to be sampled from."""

    dataset: str
    """Name of the data set (``train``, or the name given to a part of a mixture or to a validation set)."""
    index: int
    """Index of the row in its data set."""
    messages: str | Sequence[Mapping[str, Any]]
    """Plain text, or chat messages of the form ``{"role": ..., "content": ...}``. A last message of the assistant is a
    prefilled answer, to be continued."""
    columns: Mapping[str, Any]
    """Every other column of the row, by the name that rewards ask for."""


@dataclass
class Turn:
    """What the policy wrote in one turn, and what the environment answered."""

    token_ids: list[int]
    text: str
    """The written part decoded, without the stop id that ended it."""
    finish: FinishReason
    observation: str | None = None
    """The environment's answer; ``None`` after the last turn."""
    reward: float | None = None
    """Reward that the environment gave for the turn, if any."""
    state: str | None = None
    """Key of the environment's state in which the turn began, if it gives one: equal keys, equal states."""


@dataclass
class Episode:
    """One row as environments and rewards see it."""

    prompt: Prompt
    group: int
    member: int
    turns: list[Turn] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    """Behaviour log-probabilities of the written steps."""

    @property
    def completion(self) -> str:
        """What the policy wrote in its last turn."""
        return self.turns[-1].text if self.turns else ""

    @property
    def finish(self) -> FinishReason:
        """Why the row ended."""
        return self.turns[-1].finish if self.turns else FinishReason.STOP
