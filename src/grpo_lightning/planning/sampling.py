"""A rollout of the decode loop on tensors without numbers."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch._subclasses.fake_tensor import DynamicOutputShapeException

from grpo_lightning.engines.admission import Admission
from grpo_lightning.engines.base import Engine
from grpo_lightning.engines.draw import draw
from grpo_lightning.engines.flat_batch import FlatBatch
from grpo_lightning.engines.flat_forward import ModelForward
from grpo_lightning.engines.rollout_weights import narrowed, narrows
from grpo_lightning.planning.choice import Choice
from grpo_lightning.planning.live_bytes import SAMPLING_WEIGHTS, LiveBytes
from grpo_lightning.policies.base import Policy
from grpo_lightning.samplers.base import Sampler
from grpo_lightning.types import Rollouts


@torch.no_grad()
def sample(live: LiveBytes, policy: Policy, engine: Engine, sampler: Sampler, rows: Rollouts, choice: Choice) -> None:
    """Let all rows come in that may be in flight together, and write a token of each.

    Args:
        live: Counts.
        policy: The policy, without numbers.
        engine: The engine's settings: tokens whose keys may be kept, type of the weights.
        sampler: How tokens are drawn.
        rows: What is sampled, its completions as long as they may be.
        choice: Rows that may be in flight, and whether weights are spread, which are not made narrow.
    """
    settings: Any = engine
    model: Any = policy.causal_lm
    longest = int(rows.actions.lengths().max())
    narrow = not choice.sharded and narrows(model, settings.weights)
    if narrow:
        with live.counting(SAMPLING_WEIGHTS):
            model = narrowed(model)
    contexts = rows.prompts
    admission = Admission(
        rows.prompt_R,
        contexts.lengths().tolist(),
        longest,
        batch_rows=choice.batch_rows or 1,
        cache_tokens=settings.cache_tokens,
        joins=True,
    )
    with torch.autocast("cpu", enabled=False) if narrow else nullcontext():
        batch, running = FlatBatch(ModelForward(model), contexts, torch.device("cpu"), longest), 0
        try:
            while admitted := admission.admit():
                logits = batch.advance([1] * running, admitted)
                running += sum(len(each.rows) for each in admitted)
                _draw(logits, sampler)
            _draw(batch.advance([1] * running, []), sampler)
        finally:
            batch.rest()


def _draw(logits: torch.Tensor, sampler: Sampler) -> None:
    try:
        draw(logits, sampler, torch.full((logits.shape[0],), 0.5, dtype=torch.float64))
    except DynamicOutputShapeException:
        # How many ids a support keeps is not known; what comes before is larger than they are.
        return
