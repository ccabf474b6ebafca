from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from grpo_lightning.cli.recorded_rows import Recording, read_recording
from grpo_lightning.errors import ConfigError
from grpo_lightning.types import FinishReason


def known_columns(line: int, row: Mapping[str, Any]) -> dict[str, Any]:
    return {"answer": f"row {row['index']}"}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def read(*rows: Any, limit: int | None = None) -> Recording:
    Path("rows.jsonl").write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return read_recording("rows.jsonl", limit, known_columns)


def shape(recording: Recording) -> list[tuple[int, int, str]]:
    return [(each.group, each.member, each.completion) for each in recording.episodes]


def test_rows_of_equal_prompts_are_a_group() -> None:
    found = read(
        {"prompt": "1+1=", "completion": "2", "answer": "2"},
        {"prompt": "2+2=", "completion": "4", "answer": "4"},
        {"prompt": "1+1=", "completion": "3", "answer": "2"},
    )
    assert shape(found) == [(0, 0, "2"), (0, 1, "3"), (1, 0, "4")], "whole groups, one after another"
    assert found.lines == [1, 3, 2]
    assert found.groups == 2
    assert [each.prompt.columns for each in found.episodes] == [{"answer": "2"}, {"answer": "2"}, {"answer": "4"}]
    assert found.episodes[0].prompt.messages == "1+1="


@pytest.mark.parametrize("name", ["completion", "completions"])
def test_a_list_is_a_group_by_itself(name: str) -> None:
    found = read({"prompt": "p", name: ["a", "b"]}, {"prompt": "p", name: ["c"]})
    assert shape(found) == [(0, 0, "a"), (0, 1, "b"), (1, 0, "c")]


def test_chat_prompts_are_compared_by_content() -> None:
    messages = [{"role": "user", "content": "hi"}]
    again = [{"content": "hi", "role": "user"}]
    assert shape(read({"prompt": messages, "completion": "a"}, {"prompt": again, "completion": "b"})) == [
        (0, 0, "a"), (0, 1, "b"),
    ]  # fmt: skip


def test_without_a_prompt() -> None:
    assert shape(read({"completion": "a"}, {"completion": "b"})) == [(0, 0, "a"), (1, 0, "b")]
    assert shape(read({"completion": "a", "index": 7}, {"completion": "b", "index": 7})) == [(0, 0, "a"), (0, 1, "b")]


PREDICTION = {
    "dataset": "held_out", "index": 3, "prompt": "p", "sample": 0, "completion": "b", "turns": ["a", "b"], "answer": "b",
    "correct": True, "reward": 1.0, "components": {}, "log_prob": -1.0, "length": 2, "finish": "length",
}  # fmt: skip


def test_what_predict_wrote() -> None:
    found = read(PREDICTION, {**PREDICTION, "index": 4}, {**PREDICTION, "sample": 1})
    assert [(each.group, each.member, each.prompt.index) for each in found.episodes] == [
        (0, 0, 3),
        (0, 1, 3),
        (1, 0, 4),
    ]
    first = found.episodes[0]
    assert first.prompt.columns == {"answer": "row 3"}, "the data set's answer, not the one that the policy gave"
    assert [turn.text for turn in first.turns] == ["a", "b"]
    assert first.finish is FinishReason.LENGTH
    assert not found.has_lengths, "of two turns together, not of each"
    one = read({**PREDICTION, "turns": ["b"], "length": 5})
    assert one.has_lengths
    assert not one.has_ids
    assert len(one.episodes[0].turns[0].token_ids) == 5


def test_token_ids() -> None:
    found = read(
        {"completion": "ab", "completion_ids": [7]}, {"completions": ["a", "b"], "completion_ids": [[1], [2, 3]]}
    )
    assert found.has_ids
    assert [each.turns[0].token_ids for each in found.episodes] == [[7], [1], [2, 3]]
    assert not read({"completion": "ab"}).has_ids
    assert len(read({"completion": "ab"}).episodes[0].turns[0].token_ids) == 2, "a character counts as a step"


def test_blank_lines_are_no_rows_and_limit_counts_rows() -> None:
    found = read("", {"completion": "a"}, "  ", {"completion": "b"}, "{broken", limit=2)
    assert found.lines == [2, 4]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "data: 'rows.jsonl' is empty; give one JSON object a line, with a completion in it"),
        ([""], "data: 'rows.jsonl' is empty; give one JSON object a line, with a completion in it"),
        ([{"completion": "a"}, "{oops"], "data: 'rows.jsonl' is no JSON in line 2 at column 2 (Expecting property name "
         "enclosed in double quotes); mend that line"),
        (["[1]"], "data: 'rows.jsonl:1' is no JSON object; write {...} with a completion in it"),
        ([{"prompt": "a"}], "data: 'rows.jsonl:1' holds no completion; give one of completion and completions: text, or a "
         "list of texts"),
        ([{"completion": "a", "completions": ["a"]}], "data: 'rows.jsonl:1' holds both completion and completions; give one "
         "of completion and completions: text, or a list of texts"),
        ([{"completion": []}], "data: 'rows.jsonl:1' has completion [], which is no text and no list of texts; mend that "
         "line"),
        ([{"completion": 3}], "data: 'rows.jsonl:1' has completion 3, which is no text and no list of texts; mend that line"),
        ([{"completion": "a", "prompt": 3}], "data: 'rows.jsonl:1' has a prompt that is no text and no list of messages; "
         "mend that line"),
        ([{"completion": "a", "finish": "later"}], "data: 'rows.jsonl:1' has finish 'later'; set stop or length"),
        ([{"completion": "a", "groups": 1}], "data: 'rows.jsonl:1' has the column 'groups', a name that rewards get "
         "something else under; rename it"),
        ([{"completion": "a", "completion_ids": ["x"]}], "data: 'rows.jsonl:1' has completion_ids that do not belong to its "
         "completions; give a list of whole numbers for each completion"),
        ([{"completion": "a", "turns": "a"}], "data: 'rows.jsonl:1' has turns 'a', which are no list of texts; mend that "
         "line"),
    ],
)  # fmt: skip
def test_faults_name_file_and_line(rows: list[Any], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read(*rows)
    assert str(raised.value) == message


def test_files_that_cannot_be_read() -> None:
    with pytest.raises(ConfigError, match=r"data: 'none.jsonl' does not exist; check the path"):
        read_recording("none.jsonl", None, known_columns)
    Path("binary").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_recording("binary", None, known_columns)
