"""Importance ratios with a bound on their size and none on their gradient's direction."""

from __future__ import annotations

import math

from torch import Tensor

from grpo_lightning.errors import require_range
from grpo_lightning.losses.base import bounded_exp


def capped_ratio(log_ratio_S: Tensor, cap: float | None) -> Tensor:
    """[S] ``min(exp(log_ratio), cap)``, whose gradient is that value times the gradient of ``log_ratio``, above the cap too.

    So ``-A capped_ratio`` has the value of the truncated surrogate and the gradient of ``-sg[min(rho, cap)] A log pi``.

    Args:
        log_ratio_S: [S] float32 or wider.
        cap: Above 0; ``None`` leaves only the bound of :func:`~grpo_lightning.losses.base.bounded_exp`.
    """
    if cap is None:
        return bounded_exp(log_ratio_S)
    return bounded_exp(log_ratio_S - (log_ratio_S.detach() - math.log(cap)).clamp(min=0))


def require_cap(cap: float | None) -> None:
    """Check the argument ``cap``.

    Raises:
        ConfigError: If it is neither ``None`` nor a finite number of at least 1: a smaller one would scale the steps of
            an unmoved policy.
    """
    if cap is not None:
        require_range("cap", cap, low=1.0, high=float("inf"), high_open=True)
