"""What ``predict`` wrote is scored again as the run scored it, without a model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grpo_lightning.cli.main import main

TINY = Path(__file__).parents[1] / "conf" / "tiny.yaml"


def test_predictions_get_the_rewards_that_the_run_gave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    assert main(["fit", "--config", str(TINY)]) == 0
    assert main(["predict"]) == 0
    capsys.readouterr()
    (predictions,) = Path("runs").rglob("predictions.jsonl")
    config = predictions.parent / "config.yaml"
    assert main(["rewards", "try", "--config", str(config), "--data", str(predictions), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    written = [json.loads(line) for line in predictions.read_text().splitlines()]
    assert len(found["rows"]) == len(written)
    for row in found["rows"]:
        prediction = written[row["line"] - 1]
        assert row["reward"] == pytest.approx(prediction["reward"])
        assert row["components"] == pytest.approx(prediction["components"])
    assert not any("characters" in warning for warning in found["warnings"]), "predict writes lengths down"
