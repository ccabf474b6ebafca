"""The embedded policy with peaked distributions, and prompts for it."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from grpo_lightning.policies.base import Policy
from grpo_lightning.registry import create
from grpo_lightning.testing.check import Specimen
from grpo_lightning.types import Prompt

TEXTS = ("7+8=", "2-1=", "is it?")


def tiny_policy() -> Policy:
    """A new policy of ``embedded://tiny-llama``, loaded, whose distributions are far from uniform; equal at every call."""
    policy: Policy = create("policy", "causal_lm", model="embedded://tiny-llama")
    load(policy)
    sharpen(policy)
    return policy


@cache
def shared_tiny_policy() -> Policy:
    """One such policy for checks that only read it."""
    return tiny_policy()


def load(policy: Policy) -> None:
    """Prepare and load a policy, with fresh weights always of the same seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        policy.prepare()
        policy.load()


@torch.no_grad()
def sharpen(policy: Policy, *, seed: int = 0, scale: float = 0.12) -> None:
    """Draw every matrix anew, with numbers so large that distributions are peaked."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in policy.parameters():
        if parameter.dim() > 1 and parameter.requires_grad:
            parameter.copy_(scale * torch.randn(parameter.shape, generator=generator))


@torch.no_grad()
def move(policy: Policy, *, seed: int = 1, scale: float = 0.05) -> None:
    """Move every trained parameter a little, as updates do."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in policy.parameters():
        if parameter.requires_grad:
            parameter.add_(scale * torch.randn(parameter.shape, generator=generator).to(parameter))


def prompts(specimen: Specimen, count: int = 3) -> list[Prompt]:
    """Prompts whose columns are those of the specimen, which rows take in turn."""
    result = []
    for index in range(count):
        columns: dict[str, Any] = {name: values[index % len(values)] for name, values in specimen.columns.items()}
        result.append(Prompt("train", index, TEXTS[index % len(TEXTS)], columns))
    return result
