from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import datasets
import pytest

from grpo_lightning.errors import ConfigError, DataError
from grpo_lightning.prompts.hub import HubPrompts


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    data = tmp_path / "data"
    data.mkdir()
    for split, size in (("train", 4), ("test", 2)):
        rows = [json.dumps({"question": f"{split} {n}", "answer": n}) for n in range(size)]
        (data / f"{split}.jsonl").write_text("\n".join(rows))
    return str(data)


def test_rows_of_a_split(folder: str) -> None:
    prompts = HubPrompts(dataset=folder, split="test", columns={"prompt": "question"})
    prompts.load()
    assert prompts.columns == ["prompt", "answer"]
    assert list(prompts) == [{"prompt": "test 0", "answer": 0}, {"prompt": "test 1", "answer": 1}]


def test_limit(folder: str) -> None:
    prompts = HubPrompts(dataset=folder, split="train[1:]", columns={"prompt": "question"}, limit=2)
    prompts.load()
    assert [row["answer"] for row in prompts] == [1, 2]


def test_columns_are_checked(folder: str) -> None:
    with pytest.raises(DataError, match=r"^columns: "):
        HubPrompts(dataset=folder, split="test").load()


def test_what_goes_wrong_is_one_line(folder: str) -> None:
    with pytest.raises(
        DataError, match=r"^dataset: .* cannot be loaded \(ValueError: .*validation.*\); check"
    ) as raised:
        HubPrompts(dataset=folder, split="validation").load()
    assert "\n" not in str(raised.value)


def test_all_settings_reach_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def load_dataset(*positional: Any, **named: Any) -> datasets.Dataset:
        asked.append((positional, named))
        return datasets.Dataset.from_list([{"prompt": "a"}])

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    HubPrompts(dataset="openai/gsm8k", config="main", split="train", revision="abc").load()
    assert asked == [(("openai/gsm8k", "main"), {"split": "train", "revision": "abc"})]


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"^dataset: "):
        HubPrompts(dataset="", split="train")
    with pytest.raises(ConfigError, match=r"^split: "):
        HubPrompts(dataset="x", split="")
    with pytest.raises(RuntimeError, match="call load"):
        HubPrompts(dataset="x", split="train")[0]
