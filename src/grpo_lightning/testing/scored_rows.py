"""Rows that the checks of policies score: given answers to a few prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from grpo_lightning.policies.base import Policy
from grpo_lightning.testing.check import Specimen
from grpo_lightning.testing.tiny_model import load, prompts
from grpo_lightning.types import FinishReason, Ragged, Rollouts

ANSWERS = ("15", "no 4", "1", "a long answer")
TEMPERATURES = (1.0, 0.7, 1.0, 1.3)


def loaded(specimen: Specimen) -> Policy:
    """A new policy with fresh weights, equal at every call."""
    policy: Policy = specimen.make()
    load(policy)
    return policy


def scored_rows(policy: Policy, specimen: Specimen) -> Rollouts:
    """Four rows in two groups, two of them with one prompt; every step trainable, nothing out of reach."""
    contexts = [policy.encode(prompt) for prompt in prompts(specimen, 3)]
    targets = [policy.encode_target(answer) for answer in ANSWERS]
    actions = Ragged.from_list(targets, torch.int64)
    index, steps = torch.arange(len(ANSWERS)), actions.values.shape[0]
    return Rollouts(
        prompts=Ragged.from_list(contexts, torch.int64),
        prompt_R=torch.tensor([0, 1, 0, 2]),
        group_R=torch.tensor([0, 0, 1, 1]),
        member_R=index % 2,
        trajectory_R=index,
        attempt_R=torch.zeros_like(index),
        finish_R=torch.full_like(index, int(FinishReason.STOP)),
        temperature_R=torch.tensor(TEMPERATURES),
        version_R=torch.zeros_like(index),
        actions=actions,
        trainable_S=torch.ones(steps, dtype=torch.bool),
        turn_S=torch.zeros(steps, dtype=torch.int64),
        behaviour_log_probs_S=torch.zeros(steps),
    )


def masked(rows: Rollouts, hidden: Sequence[int]) -> Rollouts:
    """The same rows, where the environment wrote the steps ``hidden``."""
    trainable_S = rows.trainable_S.clone()
    trainable_S[torch.tensor(list(hidden))] = False
    return replace(rows, trainable_S=trainable_S)


def only_choice(rows: Rollouts) -> Rollouts:
    """The same rows, where each step could choose nothing but what it chose."""
    steps = rows.actions.values.shape[0]
    return replace(rows, support=Ragged(rows.actions.values.to(torch.int32), torch.arange(steps + 1)))
