"""Requests that the checks of engines make, and what they make of the answers."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from grpo_lightning.engines.base import Completions, Engine, GenerationRequest
from grpo_lightning.engines.recording import write_recording
from grpo_lightning.registry import create, registry
from grpo_lightning.samplers.base import Sampler
from grpo_lightning.testing.check import Specimen
from grpo_lightning.testing.tiny_model import shared_tiny_policy
from grpo_lightning.types import Ragged, Rollouts

CONTEXTS = ([10, 11, 12], [40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50], [7], [20, 33, 20, 33, 20])
"""Contexts of very different lengths."""
MEMBERS = 4
LIMIT = 9
STOP_IDS = frozenset(range(1, 99, 9))
"""So many that rows of every length end with one."""
STOP_STRINGS = tuple("bcdghjkmp")


def _request(rollout: int, sampler: Sampler, limits: Sequence[int], strings: Sequence[str]) -> GenerationRequest:
    rows = [(context, member) for context in range(len(CONTEXTS)) for member in range(MEMBERS)]
    return GenerationRequest(
        contexts=Ragged.from_list([list(each) for each in CONTEXTS], torch.int64),
        context_Q=torch.tensor([context for context, _ in rows]),
        address_QA=torch.tensor([[rollout, context, 0, member, 0] for context, member in rows]),
        sampler=sampler,
        seed=3,
        stream="train",
        limit_Q=torch.tensor([limits[index % len(limits)] for index in range(len(rows))]),
        stop_ids=STOP_IDS,
        stop_strings=tuple(strings),
        version=5,
    )


def request(name: str) -> GenerationRequest:
    """A new request by its name: ``plain``, ``later`` (the same in another rollout), ``narrow`` or ``strings``."""
    plain = create("sampler", "temperature", temperature=1.0)
    if name == "narrow":
        return _request(2, create("sampler", "top_p", p=0.9, temperature=0.8), (LIMIT, 1, 3), ())
    if name == "strings":
        return _request(3, plain, (LIMIT,), STOP_STRINGS)
    return _request({"plain": 0, "later": 1}[name], plain, (LIMIT,), ())


NAMES = ("plain", "later", "narrow", "strings")


def part(whole: GenerationRequest, rows: Sequence[int]) -> GenerationRequest:
    """Some rows of a request, in another order, each with a context of its own."""
    index = torch.tensor(list(rows))
    return replace(
        whole,
        contexts=whole.contexts.select(whole.context_Q[index]),
        context_Q=torch.arange(len(rows)),
        address_QA=whole.address_QA[index],
        limit_Q=whole.limit_Q[index],
    )


def engine_of(specimen: Specimen) -> Engine:
    """A new engine. One that replays is given a recording of these requests."""
    replay = registry().find("engine", "replay")
    if replay is not None and issubclass(specimen.component, replay.load()):
        specimen = replace(specimen, arguments={**specimen.arguments, "path": _recorded()})
    engine: Engine = specimen.make()
    return engine


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="grpo-lightning-recorded-")


@cache
def _recorded() -> str:
    """A folder with what the decode loop answers to these requests; it is removed when the process ends."""
    folder, engine = Path(_folder().name), create("engine", "decode_loop")
    for name in NAMES:
        asked = request(name)
        write_recording(folder, asked, engine.generate(shared_tiny_policy(), asked), asked.version)
    return str(folder)


def as_rows(asked: GenerationRequest, completions: Completions) -> Rollouts:
    """The completions as rows, as they are stored after sampling."""
    count, steps = len(completions.tokens), completions.tokens.values.shape[0]
    index = torch.arange(count)
    return Rollouts(
        prompts=asked.contexts,
        prompt_R=asked.context_Q,
        group_R=asked.address_QA[:, 1],
        member_R=asked.address_QA[:, 3],
        trajectory_R=index,
        attempt_R=torch.zeros_like(index),
        finish_R=completions.finish_Q,
        temperature_R=torch.full((count,), asked.sampler.temperature),
        version_R=torch.full_like(index, asked.version),
        actions=completions.tokens,
        trainable_S=torch.ones(steps, dtype=torch.bool),
        turn_S=torch.zeros(steps, dtype=torch.int64),
        behaviour_log_probs_S=completions.log_probs.values.float(),
        support=completions.support,
    )


def fresh_log_probs(asked: GenerationRequest, completions: Completions) -> Tensor:
    """[S]: log-probability of every token by a pass of the policy over whole rows, on the supports that came along."""
    with torch.no_grad():
        found: Tensor = shared_tiny_policy()(as_rows(asked, completions))["log_prob"]
    return found
