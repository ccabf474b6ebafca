"""Prompts given in place."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, ClassVar

from typing_extensions import override

from grpo_lightning.errors import DataError, require
from grpo_lightning.prompts.base import PromptSource
from grpo_lightning.prompts.messages import fault


class Records(PromptSource):
    """Rows written in the YAML, or a list that a Python program made.

    Args:
        rows: Rows with ``prompt`` (text, or a list of chat messages) and further columns; one that a row lacks is
            ``None``.

    Example:
        >>> source = Records(rows=[{"prompt": "2+3=", "answer": "5"}])
        >>> source.load()
        >>> source[0]["answer"]
        '5'
    """

    name = "records"
    example: ClassVar[Mapping[str, Any]] = {
        "rows": [{"prompt": "2+3=", "answer": "5"}, {"prompt": "1+1=", "steps": [1, 1]}]
    }

    def __init__(self, *, rows: list[dict[str, str | Any]]) -> None:  # Any alone would let YAML make a number of "5"
        require(isinstance(rows, list | tuple), "rows", rows, "is no list", "give a list of rows")
        require(bool(rows), "rows", rows, "is empty", "give at least one row")
        self.rows = list(rows)
        self._columns: list[str] = []

    @override
    def load(self) -> None:
        names: dict[str, None] = {"prompt": None}
        for number, row in enumerate(self.rows, start=1):
            if not isinstance(row, dict):
                raise DataError("rows", row, f"is row {number}, and no dictionary", "write {prompt: ..., answer: ...}")
            if "prompt" not in row:
                raise DataError("rows", row, f"is row {number}, and has no `prompt`", "give it one")
            reason = fault(row["prompt"])
            if reason is not None:
                raise DataError("rows", row, f"is row {number}: {reason}", "mend the row")
            names.update(dict.fromkeys(row))
        self._columns = list(names)

    @override
    def __len__(self) -> int:
        return len(self.rows)

    @override
    def __getitem__(self, index: int) -> dict[str, Any]:
        return {name: copy.deepcopy(self.rows[index].get(name)) for name in self.columns}

    @property
    @override
    def columns(self) -> list[str]:
        if not self._columns:
            raise RuntimeError("the prompts are not loaded: call load() first")
        return list(self._columns)
