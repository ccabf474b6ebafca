"""Prompts from a data set of the Hugging Face hub."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from typing_extensions import override

from grpo_lightning.errors import DataError, require
from grpo_lightning.prompts.base import PromptSource
from grpo_lightning.prompts.table import Table, check_columns_setting, loaded


class HubPrompts(PromptSource):
    """Rows of a data set that ``datasets.load_dataset`` finds: on the hub, in its cache, or in a local folder.

    Args:
        dataset: Name on the hub, such as ``openai/gsm8k``, or a folder.
        split: Its split, such as ``train`` or ``test[:200]``.
        config: Its configuration, where it has several.
        columns: Our name to the data set's column. Columns that are not mentioned keep their names. One must end up as
            ``prompt``: text, or a list of chat messages.
        revision: Branch, tag or commit; without it, results may change when the data set does.
        limit: Use only the first rows.
    """

    name = "hub"
    example: ClassVar[Mapping[str, Any]] = {
        "dataset": str(Path(__file__).parents[1] / "testing" / "example_data"),
        "split": "train",
    }

    def __init__(
        self,
        *,
        dataset: str,
        split: str,
        config: str | None = None,
        columns: dict[str, str] | None = None,
        revision: str | None = None,
        limit: int | None = None,
    ) -> None:
        require(bool(dataset), "dataset", dataset, "names no data set", "give its name on the hub")
        require(bool(split), "split", split, "names no split", "give one, such as train")
        check_columns_setting(columns, limit)
        self.dataset, self.split, self.config, self.revision, self.limit = dataset, split, config, revision, limit
        self._columns = columns
        self._table: Table | None = None

    @override
    def load(self) -> None:
        import datasets

        try:
            rows = datasets.load_dataset(self.dataset, self.config, split=self.split, revision=self.revision)
        except Exception as error:
            cause = f"{type(error).__name__}: {' '.join(str(error).split())}"
            fix = "check name, config, split and revision, and that the hub can be reached or the data set is cached"
            raise DataError("dataset", self.dataset, f"cannot be loaded ({cause})", fix) from error
        self._table = Table(rows, columns=self._columns, limit=self.limit, setting="dataset", source=self.dataset)

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
