"""Sharded weights: making them so, and having them whole for a while."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule

from grpo_lightning.policies.base import Policy, Weights
from grpo_lightning.strategies.spread_start import load_spread
from grpo_lightning.types import Ragged, Rollouts


def load(module: Any) -> None:
    """Load the policy of a module, spread over the device mesh of its strategy if that has one; once."""
    mesh = module.device_mesh
    if mesh is None:
        module.policy.load()
    elif not is_sharded(module.policy):
        load_spread(module.policy, mesh["data_parallel"])


def is_sharded(module: nn.Module) -> bool:
    """Whether weights of ``module`` are spread over processes."""
    return isinstance(module, FSDPModule)


def idle_pass(policy: Callable[..., Any], functionals: Collection[str] = (), weights: Weights = "current") -> Tensor:
    """A pass of one step whose loss is 0: what a process without rows does while others run theirs, for weights are gathered
    and gradients averaged by all processes together.

    Args:
        policy: The policy, or its ``forward``.
        functionals: What the others ask it for; some need the reference, whose weights are gathered too.
        weights: Whose weights the others go through.
    """
    one, zero = torch.ones(1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)
    step = Ragged(zero, torch.tensor([0, 1]))
    rows = Rollouts(
        prompts=step,
        prompt_R=zero,
        group_R=zero,
        member_R=zero,
        trajectory_R=zero,
        attempt_R=zero,
        finish_R=zero,
        temperature_R=torch.ones(1),
        version_R=zero,
        actions=step,
        trainable_S=one.bool(),
        turn_S=zero,
        behaviour_log_probs_S=torch.zeros(1),
    )
    return policy(rows, functionals, weights)["log_prob"].sum() * 0.0  # type: ignore[no-any-return]


@contextmanager
def whole(policy: Policy) -> Iterator[None]:
    """Every process has all weights of ``policy``: passes without gradient, as many as each likes, need no other process.

    A collective where weights are sharded; does nothing elsewhere, nor where passes are made in step.
    """
    if not is_sharded(policy) or policy.passes is not nullcontext:
        yield
        return
    parts = [each for each in policy.modules() if isinstance(each, FSDPModule)]
    frozen = [each for model in policy.frozen for each in model.modules() if isinstance(each, FSDPModule)]
    layers = parts[1:] + [each for each in frozen if each not in policy.frozen]  # the outermost ones stay whole anyway
    for each in layers:
        each.set_reshard_after_forward(False, recurse=False)
    try:
        with torch.no_grad():
            idle_pass(policy)  # gathers all there is
        for each in frozen:
            each.unshard()
        yield
    finally:
        for each in [*parts, *layers]:
            each.reshard()
        for each in layers:
            each.set_reshard_after_forward(True, recurse=False)
