from __future__ import annotations

import csv
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset

from grpo_lightning.errors import DataError
from grpo_lightning.prompts.reading import read_file, read_rows

ROWS: list[dict[str, Any]] = [
    {"prompt": "2024-01-01", "answer": "007", "level": 1, "extra": {"a": 1}, "mixed": 1},
    {"prompt": "two\nlines, é", "answer": None, "level": 2, "extra": {"b": [1, "x"]}, "mixed": "x"},
    {"prompt": [{"role": "user", "content": "2024-01-01"}], "answer": "NA", "level": 3},
]


def lines(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize("form", ["jsonl", "json lines", "json list"])
def test_json_rows_stay_as_they_are(form: str, tmp_path: Path) -> None:
    path = tmp_path / ("x.jsonl" if form == "jsonl" else "x.json")
    if form == "json list":
        path.write_text(json.dumps(ROWS, indent=2))
    else:
        lines(path, ROWS)
    rows = list(read_file(path))
    assert rows[:2] == ROWS[:2]
    assert rows[2] == {**ROWS[2], "extra": None, "mixed": None}


def test_a_column_that_begins_late_is_not_lost(tmp_path: Path) -> None:
    rows = [{"prompt": "a"}] * 3000 + [{"prompt": "b", "answer": "c"}]
    read = read_file(lines(tmp_path / "x.jsonl", rows))
    assert read[0] == {"prompt": "a", "answer": None}
    assert read[3000] == {"prompt": "b", "answer": "c"}


def test_numbers_keep_their_type_where_it_is_one(tmp_path: Path) -> None:
    row = {"prompt": "a", "i": 7, "f": 0.1, "b": True, "big": 2**70}
    assert read_file(lines(tmp_path / "x.jsonl", [row]))[0] == {**row, "big": str(2**70)}


def test_csv_is_text(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["prompt", "answer"], ["0012", "007"], ["a,b\nc", "NA"], ["x" * 200_000, ""]])
    expected = [("0012", "007"), ("a,b\nc", "NA"), ("x" * 200_000, None)]
    before = csv.field_size_limit()
    assert [(row["prompt"], row["answer"]) for row in read_file(path)] == expected
    assert csv.field_size_limit() == before


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    Dataset.from_list([{"prompt": "2024-01-01", "answer": 7}]).to_parquet(str(path))
    assert list(read_file(path)) == [{"prompt": "2024-01-01", "answer": 7}]


def test_byte_order_mark_and_blank_lines_are_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'\xef\xbb\xbf\n{"prompt": "a"}\n\n  \n{"prompt": "b"}')
    assert list(read_rows(path)) == [{"prompt": "a"}, {"prompt": "b"}]
    path = tmp_path / "x.csv"
    path.write_bytes(b"\xef\xbb\xbfprompt\na\n\nb\n")
    assert list(read_rows(path)) == [{"prompt": "a"}, {"prompt": "b"}]


def test_a_changed_file_is_read_anew(tmp_path: Path) -> None:
    path = lines(tmp_path / "x.jsonl", [{"prompt": "a"}])
    assert read_file(path)[0] == {"prompt": "a"}
    lines(path, [{"prompt": "b"}])
    assert read_file(path)[0] == {"prompt": "b"}


def test_no_network_no_noise_and_nothing_beside_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*arguments: Any) -> None:
        raise AssertionError("the network was touched")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    read_file(lines(tmp_path / "x.jsonl", [{"prompt": "a"}]))
    assert [each.name for each in tmp_path.iterdir()] == ["x.jsonl"]
    assert capsys.readouterr() == ("", "")


def fault(path: Path) -> str:
    with pytest.raises(DataError) as raised:
        read_file(path)
    text = str(raised.value)
    assert text.startswith(f"path: '{path}' ")
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.jsonl", b"", "is empty"),
        ("x.jsonl", b"\n \n", "has no rows"),
        ("x.jsonl", b"{}\n", "has no rows"),
        ("x.json", b"[]", "has no rows"),
        ("x.csv", b"prompt,answer\n", "has no rows"),
        ("x.jsonl", b'{"prompt": "a"}\n\n{"prompt": "b",}\n', "line 3, column 16: "),
        ("x.jsonl", b'{"prompt": "a"}\n{"prompt": "b', "line 2, column 12: Unterminated string"),
        ("x.jsonl", b'{"prompt": "a"}\n["b"]\n', "line 2: a row of type list, not an object"),
        ("x.json", b'[{"prompt": "a"},\n {"prompt" "b"}]', "line 2, column 12: "),
        ("x.json", b'[{"prompt": "a"}, "b"]', "row 2: a row of type str, not an object"),
        ("x.json", b'{"prompt": "a"}\n{"prompt": }', "line 2, column 12: "),
        ("x.csv", b"prompt,answer\na,b\nc\n", "line 3: 1 cells, but the header names 2 columns"),
        ("x.csv", b'prompt,answer\n"a\nb",c\nd,e,f\n', "line 4: 3 cells"),
        ("x.csv", b"prompt,prompt\na,b\n", "line 1: the header has an empty or repeated name"),
        ("x.csv", b'prompt\n"a"b\n', "line 2: "),
        ("x.jsonl", b'{"prompt": "\xff"}\n', "is no UTF-8 text"),
        ("x.parquet", b"no parquet", "cannot be read ("),
        ("x.txt", b"text", "ends in '.txt'; give a .jsonl, .json, .csv or .parquet file"),
    ],
)
def test_faults_are_named_by_line(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert message in fault(path)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    lines(tmp_path / "train.jsonl", [{"prompt": "a"}])
    assert "does not exist; did you mean 'train.jsonl'?" in fault(tmp_path / "trian.jsonl")
    assert "does not exist; paths are relative to " in fault(tmp_path / "nowhere" / "x.jsonl")
    assert "is a folder" in fault(tmp_path)
