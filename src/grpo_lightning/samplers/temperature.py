"""Sampling from the whole distribution."""

from __future__ import annotations

from torch import Tensor
from typing_extensions import override

from grpo_lightning.samplers.base import Sampler


class Temperature(Sampler):
    """``softmax(logits / temperature)``, everything allowed.

    Args:
        temperature: What logits are divided by; positive.

    Example:
        >>> from grpo_lightning.samplers.temperature import Temperature
        >>> Temperature(temperature=0.7).generate_arguments()
        {'do_sample': True, 'temperature': 0.7, 'top_k': 0, 'top_p': 1.0}
    """

    name = "temperature"
    restricts = False

    @override
    def support(self, log_probs_QV: Tensor) -> Tensor | None:
        return None
