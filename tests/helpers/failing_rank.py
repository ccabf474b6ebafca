"""Parts of a run that fail on the second of two ranks, where the first one goes on."""

from __future__ import annotations

import os
from typing import Any

from torch import Tensor

from grpo_lightning.losses.base import LossInputs, LossTerms
from grpo_lightning.losses.clipped import ClippedPolicyLoss
from grpo_lightning.samplers.top_p import TopP


def _fail() -> None:
    if os.environ.get("LOCAL_RANK") == "1":
        raise RuntimeError("by hand, on one rank")


class FailingLoss(ClippedPolicyLoss):
    """Fails inside an update, when the other rank may wait for gradients."""

    name = "failing"

    def __call__(self, inputs: LossInputs) -> LossTerms:
        _fail()
        return super().__call__(inputs)


class FailingSampler(TopP):
    """Fails inside a rollout, when the other rank samples."""

    name = "failing"

    def support(self, log_probs_QV: Tensor) -> Any:
        _fail()
        return super().support(log_probs_QV)
