"""Requests to engines, and completions as rows that a policy can score."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from grpo_lightning.engines.base import Completions, GenerationRequest
from grpo_lightning.samplers.base import Sampler
from grpo_lightning.types import Ragged, Rollouts

CONTEXTS = [[10, 11, 12], [40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50], [7], [20, 33, 20, 33, 20]]
"""Four contexts of very different lengths."""


def make_request(
    sampler: Sampler,
    *,
    contexts: Sequence[Sequence[int]] = CONTEXTS,
    members: int = 5,
    limit: int = 12,
    limits: Sequence[int] | None = None,
    stop_ids: Sequence[int] = (1,),
    stop_strings: Sequence[str] = (),
    seed: int = 0,
    stream: str = "train",
    rollout: int = 0,
) -> GenerationRequest:
    """``members`` rows for each context, addressed (rollout, context, 0, member, 0)."""
    rows = [(context, member) for context in range(len(contexts)) for member in range(members)]
    return GenerationRequest(
        contexts=Ragged.from_list([list(context) for context in contexts], torch.int64),
        context_Q=torch.tensor([context for context, _ in rows]),
        address_QA=torch.tensor([[rollout, context, 0, member, 0] for context, member in rows]),
        sampler=sampler,
        seed=seed,
        stream=stream,
        limit_Q=torch.tensor([limit] * len(rows) if limits is None else list(limits)),
        stop_ids=frozenset(stop_ids),
        stop_strings=list(stop_strings),
    )


def pick(request: GenerationRequest, rows: Sequence[int]) -> GenerationRequest:
    """Some rows of a request, in another order, with contexts of their own."""
    index = torch.tensor(list(rows))
    return GenerationRequest(
        contexts=request.contexts.select(request.context_Q[index]),
        context_Q=torch.arange(len(rows)),
        address_QA=request.address_QA[index],
        sampler=request.sampler,
        seed=request.seed,
        stream=request.stream,
        limit_Q=request.limit_Q[index],
        stop_ids=request.stop_ids,
        stop_strings=request.stop_strings,
    )


def as_rollouts(request: GenerationRequest, completions: Completions) -> Rollouts:
    """The completions as rows: what is stored after sampling."""
    count = len(completions.tokens)
    index = torch.arange(count)
    steps = completions.tokens.values.shape[0]
    return Rollouts(
        prompts=request.contexts,
        prompt_R=request.context_Q,
        group_R=request.address_QA[:, 1],
        member_R=request.address_QA[:, 3],
        trajectory_R=index,
        attempt_R=torch.zeros_like(index),
        finish_R=completions.finish_Q,
        temperature_R=torch.full((count,), request.sampler.temperature),
        version_R=torch.zeros_like(index),
        actions=completions.tokens,
        trainable_S=torch.ones(steps, dtype=torch.bool),
        turn_S=torch.zeros(steps, dtype=torch.int64),
        behaviour_log_probs_S=completions.log_probs.values,
        support=completions.support,
    )


def supports_of(completions: Completions) -> list[list[int]]:
    """Ids that every step could choose from; empty where that was everything."""
    if completions.support is None:
        return [[] for _ in range(completions.tokens.values.shape[0])]
    return completions.support.tolist()


def equal(first: Completions, second: Completions) -> bool:
    """Whether all is the same, bit for bit."""
    same = torch.equal(first.tokens.values, second.tokens.values) and torch.equal(first.finish_Q, second.finish_Q)
    same = same and torch.equal(first.tokens.offsets, second.tokens.offsets)
    same = same and torch.equal(first.log_probs.values, second.log_probs.values)
    return same and supports_of(first) == supports_of(second)
