"""The contract of samplers: which steps a policy may choose, and how sharply."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from torch import Tensor

from grpo_lightning.component import Component
from grpo_lightning.errors import require_range


class Sampler(Component, ABC):
    """A temperature and a support. The support really used is stored with the row and reused when it is scored.

    Args:
        temperature: What logits are divided by; positive.
    """

    kind = "sampler"
    explores: ClassVar[bool] = True
    """False if members of a group cannot differ, so that it cannot train."""
    restricts: ClassVar[bool] = True
    """False if ``support`` is ``None`` whatever it is asked: then it is not asked, and the log-probabilities that it would
    see are not made."""
    greedy: ClassVar[bool] = False
    """True if the support is always the most probable id alone, of equally probable ones the lowest: then it is not asked
    either, and nothing is drawn."""

    def __init__(self, *, temperature: float = 1.0) -> None:
        require_range("temperature", temperature, low=0.0, high=float("inf"), low_open=True, high_open=True)
        self.temperature = temperature

    @abstractmethod
    def support(self, log_probs_QV: Tensor) -> Tensor | None:
        """[Q, V] bool: what may be chosen; ``None`` for everything. Never empty.

        Args:
            log_probs_QV: [Q, V] float64: log-probabilities after the temperature.
        """

    def generate_arguments(self) -> dict[str, Any]:
        """The same distribution as arguments of ``transformers``' ``generate``."""
        return {"do_sample": True, "temperature": self.temperature, "top_k": 0, "top_p": 1.0}
