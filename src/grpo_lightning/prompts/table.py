"""Rows of a table under the names that the YAML gives its columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grpo_lightning.errors import DataError, near_matches, require
from grpo_lightning.prompts.messages import fault, without_nulls


class Table:
    """A checked view of a data set of the library ``datasets``.

    Args:
        rows: The data set.
        columns: Our name to the table's column. Columns that it does not mention keep their names, unless it gives that
            name to another one.
        limit: Keep the first rows only.
        setting: Argument that the data set came from, for messages.
        source: Its value.

    Raises:
        DataError: If there are no rows, a named column is absent, no column is called ``prompt``, or a prompt is
            neither text nor chat messages.
    """

    def __init__(
        self, rows: Any, *, columns: Mapping[str, str] | None, limit: int | None, setting: str, source: str
    ) -> None:
        if len(rows) == 0:
            raise DataError(setting, source, "has no rows", "give data with at least one row")
        self.sources = column_sources(rows.column_names, columns or {}, source)
        self.rows = rows if limit is None else rows.select(range(min(limit, len(rows))))
        prompts = self.sources["prompt"]
        number = 0
        for batch in self.rows.select_columns(prompts).iter(batch_size=1000):
            for prompt in batch[prompts]:
                number += 1
                reason = fault(prompt)
                if reason is not None:
                    fix = "mend the row, or name another column with columns: {prompt: ...}"
                    raise DataError(setting, source, f"row {number}: {reason}", fix)

    @property
    def columns(self) -> list[str]:
        """Names of the columns, ``prompt`` first."""
        return list(self.sources)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        row = self.rows[index]
        renamed = {name: row[source] for name, source in self.sources.items()}
        renamed["prompt"] = without_nulls(renamed["prompt"])
        return renamed


def column_sources(found: list[str], columns: Mapping[str, str], source: str) -> dict[str, str]:
    """Our name to the table's column, ``prompt`` first.

    Args:
        found: Columns of the table.
        columns: The mapping that the user wrote.
        source: What the table came from, for messages.

    Raises:
        DataError: If a column that ``columns`` names is absent, or nothing is called ``prompt``.
    """
    for column in columns.values():
        if column not in found:
            raise DataError("columns", column, f"is no column of {source}", near_matches(column, found))
    moved = set(columns.values())
    sources = {name: name for name in found if name not in moved} | dict(columns)
    if "prompt" not in sources:
        raise DataError(
            "columns",
            dict(columns),
            f"names no prompt: the columns of {source} are {', '.join(found)}",
            "say which one it is, such as columns: {prompt: question}",
        )
    return {"prompt": sources.pop("prompt"), **sources}


def loaded(table: Table | None) -> Table:
    """The table, if it was loaded."""
    if table is None:
        raise RuntimeError("the prompts are not loaded: call load() first")
    return table


def check_columns_setting(columns: Mapping[str, str] | None, limit: int | None) -> None:
    """Check the arguments ``columns`` and ``limit``.

    Raises:
        ConfigError: If a name is empty, or the limit is below 1.
    """
    names = [*(columns or {}).keys(), *(columns or {}).values()]
    require(all(names), "columns", columns, "has an empty name", "write columns: {our name: name in the data}")
    require(limit is None or limit >= 1, "limit", limit, "is below 1", "set at least 1, or leave it out")
