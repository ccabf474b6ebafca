from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from grpo_lightning.cli.recorded_columns import PredictedColumns, check_recording, counted_in_characters
from grpo_lightning.cli.recorded_rows import Recording, read_recording
from grpo_lightning.errors import ConfigError
from grpo_lightning.rewards.entry import RewardEntry
from grpo_lightning.rewards.exact_match import ExactMatch
from grpo_lightning.rewards.function import FunctionReward
from grpo_lightning.rewards.length import Length
from helpers.configured_classes import built_ins

CONFIG: dict[str, Any] = {
    "data": {
        "validation": {"easy": {"path": "easy.jsonl"}, "hard": {"name": "sorting", "length": 3, "count": 5}},
        "prefill": "A: ",
    }
}
ROW = {
    "dataset": "easy",
    "index": 1,
    "sample": 0,
    "completion": "4",
    "correct": True,
    "components": {},
    "log_prob": 0.0,
}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"prompt": "1+1=", "answer": "2"}, {"prompt": "2+2=", "answer": "4", "hint": "even"}]
    Path("easy.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def columns(config: dict[str, Any] = CONFIG, **changed: Any) -> Any:
    return PredictedColumns("p.jsonl", config, built_ins())(3, {**ROW, **changed})


def test_the_row_of_the_data_set() -> None:
    assert columns()["answer"] == "4"
    assert columns(prompt="2+2=A: ")["hint"] == "even"
    assert len(columns(dataset="hard", index=4)["answer"]) == 3


def test_test_sets_go_before_validation_sets() -> None:
    config = {"data": {**CONFIG["data"], "test": {"easy": {"name": "sorting", "length": 2, "count": 3}}}}
    assert len(columns(config)["answer"]) == 2
    with pytest.raises(ConfigError, match="is a prediction on the data set 'hard', which the configuration lacks"):
        columns(config, dataset="hard", index=0)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"dataset": "eazy"}, "data: 'p.jsonl:3' is a prediction on the data set 'eazy', which the configuration lacks; did "
         "you mean 'easy'?"),
        ({"index": 2}, "data: 'p.jsonl:3' has index 2, and the data set 2 rows; give the configuration that the predictions "
         "were made with"),
        ({"prompt": "3+3=A: "}, "data: 'p.jsonl:3' has another prompt than row 1 of the data set 'easy'; give the "
         "configuration that the predictions were made with"),
    ],
)  # fmt: skip
def test_another_configuration_is_noticed(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        columns(**changed)
    assert str(raised.value) == message


def recording(*rows: dict[str, Any]) -> Recording:
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read_recording("rows.jsonl", None, lambda line, row: {})


def ids(completions: list[str], completion_ids: list[list[int]]) -> list[float]:
    return [0.0 for _ in completions]


def behaviour(log_probs: list[list[float]]) -> list[float]:
    return [0.0 for _ in log_probs]


def test_missing_columns_name_line_and_reward() -> None:
    entries = [RewardEntry(reward=ExactMatch(), name="right")]
    rows = recording({"completion": "a", "answer": "a"}, {"completion": "a", "answers": "a"})
    with pytest.raises(ConfigError) as raised:
        check_recording(entries, rows)
    assert str(raised.value) == (
        "data: 'rows.jsonl:2' lacks 'answer', which reward 'right' asks for; add it, or name another column; did you mean "
        "'answers'?"
    )


def test_rows_that_a_reward_does_not_apply_to_need_nothing() -> None:
    entries = [RewardEntry(reward=ExactMatch(), when={"task": "sum"})]
    check_recording(
        entries, recording({"completion": "a", "task": "other"}, {"completion": "a", "task": "sum", "answer": 1})
    )


def test_what_no_recording_has() -> None:
    rows = recording({"completion": "a"})
    with pytest.raises(
        ConfigError, match="holds no log_probs, which reward 'behaviour' asks for; leave that reward out"
    ):
        check_recording([RewardEntry(reward=FunctionReward(function=behaviour))], rows)
    entries = [RewardEntry(reward=FunctionReward(function=ids))]
    with pytest.raises(
        ConfigError, match="holds no completion_ids, which reward 'ids' asks for; add completion_ids to every"
    ):
        check_recording(entries, rows)
    check_recording(entries, recording({"completion": "a", "completion_ids": [3]}))


def test_lengths_in_characters() -> None:
    entries = [RewardEntry(reward=Length(maximum=3)), RewardEntry(reward=ExactMatch())]
    assert list(counted_in_characters(entries, recording({"completion": "a"}))) == ["length"]
    assert list(counted_in_characters(entries, recording({"completion": "a", "completion_ids": [3]}))) == []
