"""What a process holds under a strategy, from what it would hold alone."""

from __future__ import annotations

from collections.abc import Mapping

from grpo_lightning.planning.choice import Choice
from grpo_lightning.planning.live_bytes import GRADIENTS, OPTIMIZER, REFERENCE, WEIGHTS
from grpo_lightning.planning.passes import ROLLOUT, SCORING, STEP, Counted

BUCKETS = "gradient buckets"
"""What ``ddp`` sends from: a second copy of the gradients."""
_WHOLE_LAYERS = 2
"""Layers that are whole at once: the one that runs and the one that is gathered for after it."""


def shared_out(counted: Counted, choice: Choice) -> dict[str, dict[str, int]]:
    """Bytes by part and phase on one of the processes of a choice.

    ``ddp`` adds buckets as large as the gradients. Where weights are spread, a process holds its share of them and, whole,
    what belongs to no layer and two layers; all of them while it samples and scores, if they are gathered for that. Gradients
    of what is whole are whole until they are averaged.
    """
    return {name: _phase(name, dict(parts), counted, choice) for name, parts in counted.phases.items()}


def _phase(name: str, parts: dict[str, int], counted: Counted, choice: Choice) -> dict[str, int]:
    whole, layer, outside = counted.sizes.whole, counted.sizes.layer, counted.sizes.outside
    if choice.processes > 1 and choice.strategy == "ddp":
        parts[BUCKETS] = whole.gradient_bytes
    if not choice.sharded:
        return parts
    n = choice.processes
    if OPTIMIZER in parts:
        parts[OPTIMIZER] = -(-parts[OPTIMIZER] // n)
    if parts.get(GRADIENTS):
        parts[GRADIENTS] = -(-whole.gradient_bytes // n)
        if name not in (ROLLOUT, SCORING, STEP):
            parts[GRADIENTS] += outside.gradient_bytes + _WHOLE_LAYERS * layer.gradient_bytes
    own = -(-whole.weight_bytes // n)
    running = outside.weight_bytes + _WHOLE_LAYERS * layer.weight_bytes
    gathered = choice.unshard_for_rollout and name in (ROLLOUT, SCORING)
    parts[WEIGHTS] = own + (whole.weight_bytes if gathered else 0 if name == STEP else running)
    if REFERENCE in parts:
        parts[REFERENCE] = parts[WEIGHTS]
    return parts


def total(parts: Mapping[str, int]) -> int:
    """Bytes of a phase."""
    return sum(parts.values())
