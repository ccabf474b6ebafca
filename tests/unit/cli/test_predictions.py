from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from grpo_lightning.cli.predictions import PredictionWriter


def rank(number: int, size: int) -> Any:
    strategy = SimpleNamespace(barrier=lambda name: None)
    return SimpleNamespace(global_rank=number, world_size=size, is_global_zero=number == 0, strategy=strategy)


def write(path: Path, number: int, size: int, *batches: Any) -> None:
    writer, trainer, module = PredictionWriter(path), rank(number, size), SimpleNamespace()
    writer.on_predict_start(trainer, module)  # type: ignore[arg-type]
    for batch in batches:
        writer.on_predict_batch_end(trainer, module, batch, None, 0)  # type: ignore[arg-type]
    writer.on_predict_end(trainer, module)  # type: ignore[arg-type]


def test_one_object_a_line(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "out.jsonl"
    rows = [{"index": 0, "prompt": "Ä?", "components": {"a": float("nan"), "b": None}}, {"index": 1, "turns": ("x",)}]
    write(path, 0, 1, rows, [{"index": 2}], None)
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"index": 0, "prompt": "Ä?", "components": {"a": None, "b": None}}, {"index": 1, "turns": ["x"]}, {"index": 2},
    ]  # fmt: skip
    assert "Ä" in path.read_text()
    assert [each.name for each in path.parent.iterdir()] == ["out.jsonl"]


def test_ranks_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    write(path, 1, 2, [{"index": 1}])
    assert not path.exists(), "it is whole when rank 0 has ended"
    write(path, 0, 2, [{"index": 0}])
    assert path.read_text() == '{"index": 0}\n{"index": 1}\n'
    assert list(tmp_path.iterdir()) == [path]


def test_a_run_that_is_stopped_leaves_nothing_that_looks_whole(tmp_path: Path) -> None:
    writer, trainer = PredictionWriter(tmp_path / "out.jsonl"), rank(0, 1)
    writer.on_predict_start(trainer, SimpleNamespace())  # type: ignore[arg-type]
    writer.on_predict_batch_end(trainer, SimpleNamespace(), [{"index": 0}], None, 0)  # type: ignore[arg-type]
    writer.on_exception(trainer, SimpleNamespace(), KeyboardInterrupt())  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
