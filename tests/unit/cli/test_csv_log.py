from __future__ import annotations

import csv
from pathlib import Path

import pytest

from grpo_lightning.cli import csv_log
from grpo_lightning.cli.csv_log import ContinuedCSVLogger


def lines(folder: Path) -> list[dict[str, str]]:
    with (folder / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_line_is_there_as_soon_as_it_is_logged(tmp_path: Path) -> None:
    logger = ContinuedCSVLogger(tmp_path)
    assert Path(logger.log_dir) == tmp_path
    logger.log_metrics({"a": 1.0}, step=1)
    assert lines(tmp_path) == [{"a": "1.0", "step": "1"}]
    logger.log_metrics({"b": 2.0}, step=2)
    assert lines(tmp_path) == [{"a": "1.0", "b": "", "step": "1"}, {"a": "", "b": "2.0", "step": "2"}]


def test_a_continued_run_continues_its_file(tmp_path: Path) -> None:
    before = ContinuedCSVLogger(tmp_path)
    for step in (1, 2, 3):
        before.log_metrics({"a": float(step)}, step=step)
    after = ContinuedCSVLogger(tmp_path, keep=True)
    after.log_metrics({"a": 30.0, "b": 1.0}, step=3)
    after.log_metrics({"a": 40.0}, step=4)
    assert [(line["step"], line["a"], line["b"]) for line in lines(tmp_path)] == [
        ("1", "1.0", ""), ("2", "2.0", ""), ("3", "30.0", "1.0"), ("4", "40.0", ""),
    ]  # fmt: skip


def test_a_new_run_starts_its_file_afresh(tmp_path: Path) -> None:
    ContinuedCSVLogger(tmp_path).log_metrics({"a": 1.0}, step=1)
    ContinuedCSVLogger(tmp_path).log_metrics({"a": 2.0}, step=5)
    assert lines(tmp_path) == [{"a": "2.0", "step": "5"}]


@pytest.mark.parametrize("validated", [True, False])
def test_a_validation_that_is_made_again_replaces_its_line_alone(validated: bool, tmp_path: Path) -> None:
    before = ContinuedCSVLogger(tmp_path)
    before.log_metrics({"a": 1.0}, step=1)
    before.log_metrics({"a": 2.0}, step=2)
    if validated:
        before.log_metrics({"validation/held_out/accuracy": 0.5}, step=2)
        before.log_metrics({"a": 3.0}, step=3)
    ContinuedCSVLogger(tmp_path, keep=True).log_metrics({"validation/held_out/accuracy": 0.25}, step=2)
    found = [(line["step"], line["a"], line["validation/held_out/accuracy"]) for line in lines(tmp_path)]
    assert found == [("1", "1.0", ""), ("2", "2.0", ""), ("2", "", "0.25")]


def test_a_line_that_was_cut_off_is_not_kept(tmp_path: Path) -> None:
    before = ContinuedCSVLogger(tmp_path)
    for step in (1, 2):
        before.log_metrics({"a": float(step), "z": 7.0}, step=step)
    path = tmp_path / "metrics.csv"
    path.write_text(path.read_text() + "3.0,3")
    ContinuedCSVLogger(tmp_path, keep=True).log_metrics({"a": 40.0}, step=4)
    assert [(line["step"], line["a"]) for line in lines(tmp_path)] == [("1", "1.0"), ("2", "2.0"), ("4", "40.0")]


@pytest.mark.parametrize("keep", [True, False])
def test_what_was_there_stays_until_the_new_file_is_whole(
    keep: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ContinuedCSVLogger(tmp_path).log_metrics({"a": 1.0}, step=1)
    after = ContinuedCSVLogger(tmp_path, keep=keep)
    after.log_hyperparams({"any": 1})

    def killed(part: Path, path: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as while_killed:
        while_killed.setattr(csv_log, "put_in_place", killed)
        with pytest.raises(KeyboardInterrupt):
            after.log_metrics({"b": 2.0}, step=2)
    assert lines(tmp_path) == [{"a": "1.0", "step": "1"}]
