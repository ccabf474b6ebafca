"""The configuration of ``docs/rewards.md`` runs."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from grpo_lightning.cli.main import main

PAGE = Path(__file__).parents[2] / "docs" / "rewards.md"


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    text = PAGE.read_text()
    (tmp_path / "polite.py").write_text(re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0])
    (tmp_path / "rewards.yaml").write_text(re.findall(r"<!-- runnable -->\n```yaml\n(.*?)```", text, re.DOTALL)[0])
    monkeypatch.chdir(tmp_path)
    assert main(["fit", "--config", "rewards.yaml", "--run_folder", "run"]) == 0, capsys.readouterr().err
    with (tmp_path / "run" / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    for name in ("exact_match", "polite", "judged"):
        assert [float(row[f"reward/{name}/failures"]) for row in rows] == [0.0] * 4
    assert (tmp_path / "scores.db").exists()
