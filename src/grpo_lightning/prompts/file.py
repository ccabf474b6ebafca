"""Prompts from a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from typing_extensions import override

from grpo_lightning.errors import DataError, require
from grpo_lightning.prompts.base import PromptSource
from grpo_lightning.prompts.reading import read_file
from grpo_lightning.prompts.table import Table, check_columns_setting, loaded


class FilePrompts(PromptSource):
    """Rows of a .jsonl, .json, .csv or .parquet file.

    Texts stay as written. A CSV file has no types: all its columns are text, and empty cells are ``None``.

    Args:
        path: The file.
        columns: Our name to the file's column, such as ``{prompt: question, answer: solution}``. Columns that are not
            mentioned keep their names. One must end up as ``prompt``: text, or a list of chat messages.
        split: Part of the file. A file is all ``train``; ``train[:90%]`` and ``train[90%:]`` (or row numbers) divide
            it.
        limit: Use only the first rows of that part.
    """

    name = "file"
    example: ClassVar[Mapping[str, Any]] = {
        "path": str(Path(__file__).parents[1] / "testing" / "example_data" / "train.jsonl")
    }

    def __init__(
        self, *, path: str, columns: dict[str, str] | None = None, split: str = "train", limit: int | None = None
    ) -> None:
        require(bool(path), "path", path, "names no file", "give the path of a file")
        check_columns_setting(columns, limit)
        self.path, self.split, self.limit = path, split, limit
        self._columns = columns
        self._table: Table | None = None

    @override
    def load(self) -> None:
        rows = _part(read_file(Path(self.path).expanduser()), self.split)
        self._table = Table(rows, columns=self._columns, limit=self.limit, setting="path", source=self.path)

    @override
    def __len__(self) -> int:
        return len(loaded(self._table))

    @override
    def __getitem__(self, index: int) -> dict[str, Any]:
        return loaded(self._table)[index]

    @property
    @override
    def columns(self) -> list[str]:
        return loaded(self._table).columns


def _part(rows: Any, split: str) -> Any:
    """The rows that ``split`` means."""
    if split == "train":
        return rows
    from datasets import ReadInstruction

    try:
        spans = ReadInstruction.from_spec(split).to_absolute({"train": len(rows)})
    except (ValueError, AssertionError) as error:
        fix = "a file is all train: write train, or a part such as train[:90%]"
        raise DataError("split", split, f"is no part of a file ({' '.join(str(error).split())})", fix) from None
    kept = [index for span in spans for index in range(span.from_ or 0, len(rows) if span.to is None else span.to)]
    if not kept:
        raise DataError("split", split, f"holds none of the {len(rows)} rows", "widen it")
    return rows.select(kept)
