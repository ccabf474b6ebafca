from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

import pytest
from grpo_lightning_reasoning_gym.command import add_arguments, run

CONFIG = """
data:
  train: {name: reasoning_gym, task: gcd, size: 20, split: any}
  validation:
    held_out: {name: reasoning_gym, task: gcd, size: 5, split: held_out, samples: 4}
    same: {source: {name: reasoning_gym, task: gcd, size: 4, split: any}}
    other: {path: rows.jsonl}
"""


def command(*words: str) -> int:
    parser = ArgumentParser()
    add_arguments(parser)
    return run(parser.parse_args(words))


def test_lists_tasks_with_their_levels(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("tasks") == 0
    lines = dict(line.split() for line in capsys.readouterr().out.splitlines())
    assert (lines["chain_sum"], lines["acre"]) == ("11", "-")


def test_shows_options_and_questions(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("show", "chain_sum", "--level", "1", "--size", "1") == 0
    shown = capsys.readouterr().out
    assert "max_terms: 3" in shown
    assert "State the final answer" in shown


def test_an_unknown_task_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("show", "chain_sums") == 2
    assert "did you mean 'chain_sum'" in capsys.readouterr().err


def test_counts_shared_prompts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(CONFIG)
    assert command("overlap", str(path)) == 0
    shown = capsys.readouterr().out
    assert "data.train and data.validation.same.source share 4" in shown
    assert "data.validation.held_out and data.validation.same.source share" in shown
    assert command("overlap", str(tmp_path / "absent.yaml")) == 2
