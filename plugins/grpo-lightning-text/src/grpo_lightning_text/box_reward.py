"""Rewards that compare a box with the right one."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from typing_extensions import override

from grpo_lightning_text.answers import answer_in
from grpo_lightning_text.boxes import Box, Format, box_in, expected_box, require_format
from grpo_lightning_text.column_reward import ColumnReward, compiled


class BoxReward(ColumnReward):
    """0 without a box of positive area in the completion, else what :meth:`similarity` says of it and the right one."""

    def __init__(self, *, column: str = "answer", format: Format = "xyxy", pattern: str | None = None) -> None:
        require_format(format)
        super().__init__(column=column)
        self.format = format
        self.pattern = compiled(pattern)

    @override
    def compare(self, completion: str, right: Any) -> float:
        expected = expected_box(right, self.column, self.format)
        text = answer_in(completion, self.pattern)
        found = None if text is None else box_in(text, self.format)
        return 0.0 if found is None else self.similarity(found, expected)

    @abstractmethod
    def similarity(self, found: Box, expected: Box) -> float:
        """The score of a box, in [0, 1]."""
