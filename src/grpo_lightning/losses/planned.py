"""Steps that a loss chose before the update's first micro-batch."""

from __future__ import annotations

import torch
from torch import Tensor

from grpo_lightning.losses.base import LossInputs


def marks(chosen: Tensor, like_S: Tensor) -> Tensor:
    """[S] float64: 1 at the indices ``chosen``, 0 elsewhere: a plan.

    Args:
        chosen: [number chosen] int64: indices of steps of the update.
        like_S: [S] any tensor of the update's steps.
    """
    return torch.zeros_like(like_S, dtype=torch.float64).index_fill(0, chosen, 1.0)


def planned(inputs: LossInputs, name: str) -> Tensor:
    """[S] bool: the steps of a micro-batch that the plan of the loss ``name`` marked.

    Raises:
        ValueError: If the micro-batch carries no plan.
    """
    if inputs.plan_S is None:
        raise ValueError(f"loss {name!r} needs plan_S: call its plan() on the steps of the whole update first")
    return inputs.plan_S > 0
