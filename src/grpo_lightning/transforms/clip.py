"""Bounding advantages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor
from typing_extensions import override

from grpo_lightning.errors import require_range
from grpo_lightning.formula import Formula, latex_number, number
from grpo_lightning.transforms.base import Transform
from grpo_lightning.types import Rollouts, RolloutTable


class ClipAdvantage(Transform):
    """``A_i`` clamped to ``[-limit, limit]``, row by row.

    An advantage of 0 stays exactly 0. The advantages of a group need not add up to 0 any more.

    Args:
        limit: Largest magnitude of an advantage; positive.

    Example:
        >>> from grpo_lightning.transforms.clip import ClipAdvantage
        >>> ClipAdvantage(limit=2.0).formula().text
        'A <- clip(A, -2, 2)'
    """

    name = "clip"
    example: ClassVar[Mapping[str, Any]] = {"limit": 0.5}

    def __init__(self, *, limit: float) -> None:
        require_range("limit", limit, low=0.0, high=float("inf"), low_open=True, high_open=True)
        self.limit = limit

    @override
    def formula(self) -> Formula:
        limit, latex = number(self.limit), latex_number(self.limit)
        return Formula(f"A <- clip(A, -{limit}, {limit})", rf"A \leftarrow \operatorname{{clip}}(A, -{latex}, {latex})")

    @override
    def __call__(self, advantages: Tensor, table: RolloutTable, rollouts: Rollouts) -> Tensor:
        return advantages.clamp(-self.limit, self.limit)
