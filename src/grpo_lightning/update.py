"""What happens to an update's gradient between backward and optimizer."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from grpo_lightning.errors import NonFiniteError
from grpo_lightning.rollout import world

log = logging.getLogger(__name__)


def gradient_norm(module: nn.Module) -> float:
    """L2 norm of the whole gradient, before clipping."""
    gradients = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
    if not gradients:
        return 0.0
    norm = torch.nn.utils.get_total_norm(gradients)
    return float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)


def finish_gradient(module: nn.Module, losses: Sequence[Tensor], non_finite: str) -> dict[str, float]:
    """Check a gradient before the optimizer sees it.

    A gradient that is exactly 0 moves nothing: the optimizer's momentum is not applied either, since an update without
    signal has nothing to say about the weights. A gradient or loss that is not finite stops the run or is dropped.

    Args:
        module: What is trained.
        losses: Losses of the update's micro-batches on this rank, before scaling.
        non_finite: ``stop`` or ``skip``.

    Returns:
        ``optim/grad_norm`` and ``optim/skipped`` (1 if the gradient was dropped because it was not finite).

    Raises:
        NonFiniteError: Under ``stop``, on all ranks.
    """
    norm = gradient_norm(module)
    values = [float(loss) for part in world.gather([float(loss) for loss in losses]) for loss in part]
    bad = [value for value in values if not torch.isfinite(torch.tensor(value))]
    finite = not bad and bool(torch.isfinite(torch.tensor(norm)))
    if not finite:
        what = f"loss {bad[0]}" if bad else f"gradient norm {norm}"
        if non_finite == "stop":
            raise NonFiniteError(f"model.non_finite: 'stop' met {what}, the weights are as before this update; "
                                 "lower the learning rate, or set it to 'skip'")  # fmt: skip
        log.warning("update skipped: %s", what)
    if not finite or norm == 0.0:
        for parameter in module.parameters():
            parameter.grad = None
    return {"optim/grad_norm": norm, "optim/skipped": float(not finite)}


@contextmanager
def stage_learning_rate(optimizer: Any, rate: float | None) -> Iterator[None]:
    """Let the optimizer work at ``rate`` for a while; ``None`` leaves it as it is."""
    before = [group["lr"] for group in optimizer.param_groups]
    if rate is not None:
        for group in optimizer.param_groups:
            group["lr"] = rate
    try:
        yield
    finally:
        if rate is not None:
            for group, own in zip(optimizer.param_groups, before, strict=True):
                group["lr"] = own


def untouched(module: Any) -> Tensor:
    """A zero whose gradient is zero: alone, of nothing; on several ranks, of every parameter, since they wait for it."""
    if world.world_size() == 1:
        return torch.zeros((), device=module.device, requires_grad=True)
    parts = [parameter.reshape(-1)[:0].sum() for parameter in module.parameters() if parameter.requires_grad]
    return torch.stack(parts).sum()
