from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from grpo_lightning.errors import ConfigError, DataError
from grpo_lightning.prompts.file import FilePrompts


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = tmp_path / "x.jsonl"
    file.write_text("".join(json.dumps({"question": f"{n}+1=", "answer": str(n + 1)}) + "\n" for n in range(10)))
    return str(file)


def source(path: str, **arguments: Any) -> FilePrompts:
    prompts = FilePrompts(path=path, columns={"prompt": "question"}, **arguments)
    prompts.load()
    return prompts


def test_rows(path: str) -> None:
    prompts = source(path)
    assert len(prompts) == 10
    assert prompts.columns == ["prompt", "answer"]
    assert prompts[3] == {"prompt": "3+1=", "answer": "4"}


@pytest.mark.parametrize(
    ("arguments", "rows"),
    [
        ({"limit": 2}, [0, 1]),
        ({"split": "train[80%:]"}, [8, 9]),
        ({"split": "train[:3]"}, [0, 1, 2]),
        ({"split": "train[-4:]", "limit": 1}, [6]),
    ],
)
def test_parts(arguments: dict[str, Any], rows: list[int], path: str) -> None:
    assert [row["prompt"] for row in source(path, **arguments)] == [f"{n}+1=" for n in rows]


@pytest.mark.parametrize("split", ["test", "train[a:]", "train[5:5]", ""])
def test_wrong_part_is_named(split: str, path: str) -> None:
    with pytest.raises(DataError, match=r"^split: "):
        source(path, split=split)


def test_faults_are_found_when_it_loads_not_when_it_is_made(tmp_path: Path) -> None:
    prompts = FilePrompts(path=str(tmp_path / "none.jsonl"))
    with pytest.raises(DataError, match=r"^path: .* does not exist"):
        prompts.load()


def test_home_is_expanded(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(Path(path).parent))
    assert len(source("~/x.jsonl")) == 10


def test_chat_with_keys_that_not_all_messages_have(tmp_path: Path) -> None:
    chat = [{"role": "system", "content": "a"}, {"role": "user", "content": "b", "name": "c"}]
    (tmp_path / "x.jsonl").write_text(json.dumps({"prompt": chat}) + "\n")
    prompts = FilePrompts(path=str(tmp_path / "x.jsonl"))
    prompts.load()
    assert prompts[0] == {"prompt": chat}


def test_survives_pickling(path: str) -> None:
    assert pickle.loads(pickle.dumps(source(path)))[3] == source(path)[3]


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"^path: "):
        FilePrompts(path="")
    with pytest.raises(ConfigError, match=r"^limit: "):
        FilePrompts(path="x.jsonl", limit=0)
    with pytest.raises(RuntimeError, match="call load"):
        len(FilePrompts(path="x.jsonl"))
