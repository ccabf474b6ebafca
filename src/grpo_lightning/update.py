"""What happens to an update's gradient between backward and optimizer."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from grpo_lightning import profiling
from grpo_lightning.errors import NonFiniteError
from grpo_lightning.reports import UpdateReport
from grpo_lightning.rollout import world
from grpo_lightning.rollout.statistics import UpdateStatistics

log = logging.getLogger(__name__)


class RunningUpdate:
    """What is known of an update while its micro-batches run; it begins when the rollout, if one is due, is there."""

    def __init__(self) -> None:
        self.statistics = UpdateStatistics()
        self.losses: list[Tensor] = []
        """Losses of this rank's micro-batches, before scaling."""
        self.report = UpdateReport("", 0, -1)
        self._started = time.perf_counter()

    def complete(self, learning_rate: float) -> None:
        """The optimizer has stepped: fill in the report."""
        profiling.end(profiling.OPTIMIZER)
        with profiling.phase(profiling.LOGGING):
            self.report.metrics |= self.statistics.reduce()
        self.report.metrics["optim/learning_rate"] = learning_rate
        self.report.metrics["time/update"] = time.perf_counter() - self._started


def optimizers(module: Any, make: Callable[[Any], Any] | None, lr_scheduler: Callable[[Any], Any] | None) -> Any:
    """What ``configure_optimizers`` returns: the optimizer of all that trains, by default :func:`default_optimizer`."""
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    made = default_optimizer(module, parameters, module.learning_rate) if make is None else make(parameters)
    return with_schedule(made, lr_scheduler)


def default_optimizer(module: Any, parameters: list[nn.Parameter], learning_rate: float) -> torch.optim.Optimizer:
    """AdamW without weight decay, in its fused form where nothing has to come between gradient and step.

    The fused form reads and writes each number once; one that unscales gradients by itself would hide them from clipping.
    """
    precision = getattr(module.trainer, "precision_plugin", None)
    plain = not any(hasattr(parameter, "full_tensor") for parameter in parameters)
    fused = plain and getattr(precision, "scaler", None) is None
    fused = fused and all(parameter.device.type in ("cpu", "cuda") for parameter in parameters)
    return torch.optim.AdamW(parameters, lr=learning_rate, weight_decay=0.0, fused=fused)


def with_schedule(optimizer: Any, lr_scheduler: Callable[[Any], Any] | None) -> Any:
    """What ``configure_optimizers`` returns: the optimizer, with a schedule that is stepped every update."""
    if lr_scheduler is None:
        return optimizer
    return {"optimizer": optimizer, "lr_scheduler": {"scheduler": lr_scheduler(optimizer), "interval": "step"}}


def gradient_norm(module: nn.Module) -> float:
    """L2 norm of the whole gradient, before clipping."""
    gradients = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
    if not gradients:
        return 0.0
    norm = torch.nn.utils.get_total_norm(gradients)
    return float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)


def finish_gradient(module: nn.Module, update: RunningUpdate, non_finite: str) -> bool:
    """Check a gradient before the optimizer sees it.

    A gradient that is exactly 0 moves nothing: the optimizer's momentum is not applied either, since an update without
    signal has nothing to say about the weights. A gradient or loss that is not finite stops the run or is dropped.

    Args:
        module: What is trained.
        update: The update; ``optim/grad_norm`` and ``optim/skipped`` (1 if the gradient was not finite and is dropped) are
            added to its report.
        non_finite: ``stop`` or ``skip``.

    Returns:
        Whether there is a gradient to clip and to step with.

    Raises:
        NonFiniteError: Under ``stop``, on all ranks.
    """
    profiling.begin(profiling.OPTIMIZER)  # until the update is complete
    norm = gradient_norm(module)
    values = [float(loss) for part in world.gather([float(loss) for loss in update.losses]) for loss in part]
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
    update.report.metrics |= {"optim/grad_norm": norm, "optim/skipped": float(not finite)}
    return finite and norm > 0.0


def finish_and_clip(
    module: Any, update: RunningUpdate, non_finite: str, optimizer: Any, limit: float | None, algorithm: str | None
) -> None:
    """:func:`finish_gradient`, and then clip what is left, whose norm is known by then and not computed again.

    Args:
        module: What is trained.
        update: The update.
        non_finite: ``stop`` or ``skip``.
        optimizer: What Lightning clips for.
        limit: Norm, or value, that the gradient is clipped to; ``None`` or 0 leaves it as it is.
        algorithm: ``norm`` (also ``None``) or ``value``.
    """
    if not finish_gradient(module, update, non_finite):
        return
    parameters = [parameter for parameter in module.parameters() if parameter.grad is not None]
    if algorithm == "value" or any(hasattr(parameter.grad, "full_tensor") for parameter in parameters):
        module.clip_gradients(optimizer, limit, algorithm)
    elif limit:
        norm = torch.tensor(update.report.metrics["optim/grad_norm"])
        torch.nn.utils.clip_grads_with_norm_(parameters, limit, norm)


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
    """A zero whose gradient is zero: alone, or sharded, of nothing; on several ranks that wait for it, of every parameter."""
    sharded = any(hasattr(parameter, "full_tensor") for parameter in module.parameters())
    if sharded or world.world_size() == 1:
        return torch.zeros((), device=module.device, requires_grad=True)
    parts = [parameter.reshape(-1)[:0].sum() for parameter in module.parameters() if parameter.requires_grad]
    return torch.stack(parts).sum()
