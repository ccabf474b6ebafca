"""Passes without gradient through weights that stay sharded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FSDPModule

from grpo_lightning.policies.base import Policy, Weights
from grpo_lightning.strategies.sharding import idle_pass

_NOTHING = 9
_WEIGHTS: dict[int, Weights] = {1: "current", 2: "reference"}


class Lockstep:
    """Lets processes go through the layers of a policy together, whatever each has to do.

    Before a pass, its process tells the others whose layers it goes through, the policy's or the reference's. All go through
    the same: a process that has nothing to do there runs a pass of one step. So sampling takes as many steps on every process
    as on the one with the longest row, and each step gathers every layer once.

    Args:
        policy: A policy whose weights are sharded.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._open = self._idle = False

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Within the block, passes are made together; it ends on all processes when none has passes left. A collective: all
        processes enter it, and none talks to the others inside."""
        if self._open:  # a part of a larger block
            yield
            return
        with torch.no_grad():
            idle_pass(self.policy)  # gathers what belongs to no layer
        hooks = [
            self._first_layer(model).register_forward_pre_hook(self._before(code), prepend=True)
            for code, model in self._models()
        ]
        self._open = True
        try:
            yield
        finally:
            while (chosen := self._agreed(_NOTHING)) != _NOTHING:
                self._run_idle(chosen)
            self._open = False
            for hook in hooks:
                hook.remove()
            root: Any = self.policy
            root.reshard()

    def _models(self) -> list[tuple[int, nn.Module]]:
        return [(1, self.policy), *((2, model) for model in self.policy.frozen[:1])]

    def _first_layer(self, model: nn.Module) -> nn.Module:
        parts = [each for each in model.modules() if isinstance(each, FSDPModule)]
        return parts[1] if len(parts) > 1 else parts[0]

    def _before(self, code: int) -> Any:
        def agree(*_: object) -> None:
            if not self._idle:
                while (chosen := self._agreed(code)) != code:
                    self._run_idle(chosen)

        return agree

    def _agreed(self, code: int) -> int:
        """The least code that a process has; each tells its own."""
        told = torch.tensor([code], device=getattr(self.policy, "device", "cpu"))
        dist.all_reduce(told, dist.ReduceOp.MIN)
        return int(told)

    def _run_idle(self, code: int) -> None:
        self._idle = True
        try:
            with torch.no_grad():
                # Not by the module's call: inside another pass, its end would give back what belongs to no layer.
                idle_pass(self.policy.forward, weights=_WEIGHTS[code])
        finally:
            self._idle = False
