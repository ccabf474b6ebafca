from __future__ import annotations

from typing import Any

import pytest
from datasets import Dataset

from grpo_lightning.errors import ConfigError, DataError
from grpo_lightning.prompts.table import Table, check_columns_setting, column_sources, loaded


def table(rows: list[dict[str, Any]], columns: dict[str, str] | None = None, limit: int | None = None) -> Table:
    return Table(Dataset.from_list(rows), columns=columns, limit=limit, setting="path", source="x.jsonl")


def test_columns_get_our_names_and_the_others_stay() -> None:
    rows = table([{"answer": 5, "question": "2+3=", "level": 1}], {"prompt": "question", "solution": "answer"})
    assert rows.columns == ["prompt", "level", "solution"]
    assert rows[0] == {"prompt": "2+3=", "level": 1, "solution": 5}


def test_a_name_that_is_given_away_hides_the_column_that_had_it() -> None:
    assert column_sources(["prompt", "question"], {"prompt": "question"}, "x") == {"prompt": "question"}


def test_limit() -> None:
    rows = [{"prompt": str(number)} for number in range(5)]
    assert [row["prompt"] for row in table(rows, limit=2)] == ["0", "1"]
    assert len(table(rows, limit=9)) == 5


def test_absent_column_is_named_with_near_matches() -> None:
    with pytest.raises(DataError, match=r"^columns: 'quesion' is no column of x\.jsonl; did you mean 'question'"):
        table([{"question": "a"}], {"prompt": "quesion"})


def test_something_must_be_the_prompt() -> None:
    with pytest.raises(DataError, match=r"names no prompt: the columns of x\.jsonl are question, answer; say which"):
        table([{"question": "a", "answer": "b"}])


def test_bad_prompt_is_named_by_row() -> None:
    with pytest.raises(DataError, match=r"^path: 'x\.jsonl' row 2: its prompt is empty"):
        table([{"prompt": "a"}, {"prompt": None}])
    # Rows beyond the limit are not used, so not judged.
    assert len(table([{"prompt": "a"}, {"prompt": None}], limit=1)) == 1


def test_no_rows() -> None:
    with pytest.raises(DataError, match="has no rows"):
        table([])


def test_not_loaded() -> None:
    with pytest.raises(RuntimeError, match="call load"):
        loaded(None)


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"^limit: 0"):
        check_columns_setting(None, 0)
    with pytest.raises(ConfigError, match=r"^columns: "):
        check_columns_setting({"prompt": ""}, None)
