"""What transformers' ``generate`` samples from, for the arguments that a sampler gives it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

_KNOWN = frozenset({"do_sample", "temperature", "top_k", "top_p", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff"})


def generate_distribution(arguments: Mapping[str, Any], logits_QV: Tensor) -> Tensor | None:
    """[Q, V]: probabilities that ``generate`` samples from; ``None`` if an argument is not among those known here.

    Args:
        arguments: Arguments of ``generate``; what is left out is what leaves everything as it is.
        logits_QV: [Q, V].
    """
    from transformers.generation import logits_process as steps

    if set(arguments) - _KNOWN:
        return None
    if not arguments.get("do_sample", False):
        best_Q1 = logits_QV.argmax(-1, keepdim=True)
        return torch.zeros_like(logits_QV).scatter_(-1, best_Q1, 1.0)
    scores: Tensor = logits_QV.clone()
    ids = torch.zeros(logits_QV.shape[0], 0, dtype=torch.int64)
    # In the order of generate; each with the value that changes nothing.
    for name, neutral, step in (
        ("temperature", 1.0, steps.TemperatureLogitsWarper),
        ("top_k", 0, steps.TopKLogitsWarper),
        ("top_p", 1.0, steps.TopPLogitsWarper),
        ("min_p", 0.0, steps.MinPLogitsWarper),
        ("typical_p", 1.0, steps.TypicalLogitsWarper),
        ("epsilon_cutoff", 0.0, steps.EpsilonLogitsWarper),
        ("eta_cutoff", 0.0, steps.EtaLogitsWarper),
    ):
        value = arguments.get(name, neutral)
        if value is not None and value != neutral:
            scores = step(value)(ids, scores)
    return scores.softmax(-1)
