"""Weights that one process reads and every process gets its part of."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from grpo_lightning.functional.replaced_tensors import replace_tensors
from grpo_lightning.functional.sharded_tensors import scattered
from grpo_lightning.policies.base import Policy
from grpo_lightning.rollout import world


def load_spread(policy: Policy, mesh: Any) -> None:
    """Load a policy whose weights are spread over the processes of a mesh: only the first process ever holds all of them.

    The others build the model without numbers (:meth:`Policy.outline`), and are given what the first one has found out
    while it loaded, their parts and its buffers, one tensor after the other. A policy whose class has a way to load of its own
    and no outline that belongs to it is loaded by every process.
    A collective.

    Raises:
        ConfigError: On all processes, what loading raises on one.
    """
    if _maker(policy, "outline") is not _maker(policy, "load"):
        policy.load()
        policy.shard(mesh)
        return
    first = dist.get_rank() == 0
    world.together(policy.load if first else lambda: _outline(policy))
    _copy_findings(policy)
    whole = dict(policy.named_parameters()) if first else {}
    policy.shard(mesh)

    def part(name: str, each: Tensor) -> Tensor:
        if not isinstance(each, nn.Parameter):
            return _broadcast(each, mesh, first)
        own = scattered(whole.get(name), each)
        return each if first else nn.Parameter(own, each.requires_grad)

    replace_tensors(policy, part)


def _maker(policy: Policy, method: str) -> type:
    """The class that a method comes from."""
    return next(each for each in type(policy).__mro__ if method in vars(each))


def _outline(policy: Policy) -> None:
    with torch.device("meta"):
        policy.outline()


def _copy_findings(policy: Policy) -> None:
    """What the first process knows of the policy, and where its random numbers are: adapters were drawn from them."""
    known = {name: each for name, each in vars(policy).items() if isinstance(each, str | bool | int | float)}
    types = {name: each.dtype for name, each in policy.named_parameters()}
    told: list[Any] = [(known, types, torch.get_rng_state())]
    dist.broadcast_object_list(told, src=0)
    found, first_types, random = told[0]
    vars(policy).update(found)
    torch.set_rng_state(random)
    for name, parameter in policy.named_parameters():
        if parameter.dtype != first_types[name]:  # adapters take the type of weights that have numbers
            parameter.data = parameter.data.to(first_types[name])


def _broadcast(buffer: Tensor, mesh: Any, first: bool) -> Tensor:
    sent = buffer.detach().to(mesh.device_type) if first else torch.empty_like(buffer, device=mesh.device_type)
    sent = sent.contiguous()
    dist.broadcast(sent, src=0)
    return buffer if first else sent
