"""What ``transformers`` keeps and how it weighs it, for the arguments that a sampler gives to ``generate``."""

from __future__ import annotations

import torch
from torch import Tensor
from transformers.generation.logits_process import (
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from grpo_lightning.samplers.base import Sampler


def generate_distribution(sampler: Sampler, logits_QV: Tensor) -> Tensor:
    """[Q, V]: probabilities that ``generate`` would sample from."""
    arguments = sampler.generate_arguments()
    if not arguments["do_sample"]:
        return torch.nn.functional.one_hot(logits_QV.argmax(-1), logits_QV.shape[-1]).to(logits_QV)
    no_ids = torch.zeros(logits_QV.shape[0], 0, dtype=torch.int64)
    scores: Tensor = TemperatureLogitsWarper(arguments["temperature"])(no_ids, logits_QV)
    if arguments["top_k"]:
        scores = TopKLogitsWarper(arguments["top_k"])(no_ids, scores)
    if arguments["top_p"] < 1.0:
        scores = TopPLogitsWarper(arguments["top_p"])(no_ids, scores)
    if "min_p" in arguments:
        scores = MinPLogitsWarper(arguments["min_p"])(no_ids, scores)
    return scores.softmax(-1)


def own_distribution(sampler: Sampler, logits_QV: Tensor) -> Tensor:
    """[Q, V]: probabilities of the sampler's temperature and support."""
    log_probs = (logits_QV / sampler.temperature).log_softmax(-1)
    support = sampler.support(log_probs)
    return log_probs.softmax(-1) if support is None else log_probs.masked_fill(~support, -torch.inf).softmax(-1)
