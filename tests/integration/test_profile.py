"""``fit --profile``: the table of a run's phases."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint

from grpo_lightning import profiling
from grpo_lightning.callbacks.phase_profile import PhaseProfile
from grpo_lightning.cli.main import main
from grpo_lightning.profiling.table import COLUMNS
from helpers.launched_ranks import TESTS, rank_variables, run_ranks
from helpers.tiny_runs import tiny_data, tiny_module, tiny_trainer, weights

PAGE = (TESTS.parent / "docs" / "profiling.md").read_text()
ABOUT = "".join(
    line.split("|")[1]
    for line in PAGE.partition("\n## Above the table\n")[2].partition("\n## ")[0].splitlines()
    if line.startswith("| `")
)
"""The names that the page gives to the lines above the table."""
TINY = TESTS / "conf" / "tiny.yaml"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONWARNINGS", "ignore")
    for name in ("LOCAL_RANK", "RANK", "WORLD_SIZE", "WANDB_API_KEY", "WANDB_MODE"):
        monkeypatch.delenv(name, raising=False)


def read(folder: Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """What is known of a profiled run, and its lines by phase."""
    data = json.loads((folder / "profile.json").read_text())
    return data, {row["phase"]: row for row in data["phases"]}


def table(path: Path) -> dict[str, dict[str, str]]:
    """The lines of the table for people, by phase and column."""
    lines = [line for line in path.read_text().splitlines() if line.startswith("| ")]
    header, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    return {row[0]: dict(zip(header, row, strict=True)) for row in rows}


def test_a_profiled_run_and_its_continuation(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "--config", str(TINY), "--profile", "--trainer.max_steps", "4"]) == 0
    run = Path("runs/001")
    assert "profile          runs/001/profile.md\n" in capsys.readouterr().out
    assert "profile: true" not in (run / "config.yaml").read_text(), "it says what one command does"
    about, phases = read(run)
    # Two updates of the warm-up and two of GRPO, each a rollout of two groups of four.
    assert (about["updates"], about["rollouts"], about["ranks"]) == (4, 2, 1)
    assert about.keys() - {"phases"} == set(re.findall(r"`(\w+)`", ABOUT)), "docs/profiling.md"
    assert about["rows_sampled"] == 2 * 2 * 4
    assert about["rows_sampled"] == about["rows_not_selected"] + about["rows_not_run"] + about["rows_run"]
    calls = {name: phases[name]["calls"] for name in ("reward", "reference_log_probs", "credit", "optimizer", "rest")}
    assert calls == {"reward": 2, "reference_log_probs": 2, "credit": 2, "optimizer": 4, "rest": 1}
    assert phases["forward"]["calls"] == phases["backward"]["calls"]
    assert phases["evaluation"]["calls"] > 0
    assert phases["checkpoint"]["calls"] > 0
    assert "old_log_probs" not in phases, "one update a rollout needs none"

    rows = [row for name, row in phases.items() if name != "all"]
    assert sum(row["seconds"] for row in rows) == pytest.approx(about["wall_seconds"], rel=1e-9)
    assert sum(row["share"] for row in rows) == pytest.approx(1, rel=1e-9)
    assert phases["all"]["seconds"] == pytest.approx(about["wall_seconds"], rel=1e-9)
    shown = table(run / "profile.md")
    assert list(shown) == list(phases)
    total = sum(float(row["seconds"]) for name, row in shown.items() if name != "all")
    assert total == pytest.approx(float(shown["all"]["seconds"]), abs=0.0005 * len(shown))

    assert main(["fit", "--resume", "auto", "--profile", "--trainer.max_steps", "5"]) == 0
    assert (read(run)[0]["updates"], read(run)[0]["rollouts"]) == (1, 1), "of the process that continues"
    assert not profiling.active()


def test_it_belongs_to_fit(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "--config", str(TINY), "--trainer.max_steps", "3"]) == 0
    assert not Path("runs/001/profile.md").exists()
    assert main(["validate", "--profile"]) == 2
    assert "profile: True has no meaning for validate; it belongs to fit" in capsys.readouterr().err


def trained(folder: Path, *callbacks: Callback, **changed: Any) -> Trainer:
    torch.manual_seed(0)
    trainer = tiny_trainer(folder, 6, callbacks=list(callbacks))
    trainer.fit(tiny_module(**changed), datamodule=tiny_data(validate_every=3))
    return trainer


def test_no_number_depends_on_it(tmp_path: Path) -> None:
    plain, profiled = trained(tmp_path / "plain"), trained(tmp_path / "profiled", PhaseProfile())
    assert torch.equal(weights(plain.lightning_module), weights(profiled.lightning_module))
    assert plain.callback_metrics.keys() == profiled.callback_metrics.keys()


class Checkpoints(Callback):
    """Counts the checkpoints that are written, by another way."""

    def __init__(self) -> None:
        self.written = 0

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Any) -> None:
        self.written += 1


def test_phases_of_a_run_from_python(tmp_path: Path) -> None:
    count = Checkpoints()
    save = ModelCheckpoint(tmp_path / "kept", every_n_train_steps=2, save_on_train_epoch_end=False)
    trainer = trained(tmp_path, PhaseProfile(), count, save)
    _, phases = read(tmp_path)
    assert count.written == 3
    assert phases["checkpoint"]["calls"] == count.written
    assert phases["old_log_probs"]["calls"] == 1, "four updates a rollout"
    assert trainer.save_checkpoint.__func__ is Trainer.save_checkpoint, "given back"


class Stop(Callback):
    """Ends a run in its third update."""

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if trainer.global_step == 3:
            raise ZeroDivisionError


def test_a_run_that_stops_leaves_what_it_has(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        trained(tmp_path, PhaseProfile(), Stop())
    assert read(tmp_path)[0]["updates"] == 3
    assert not profiling.active()


def test_collect_holds_all_of_a_rollout(tmp_path: Path) -> None:
    seen = []

    class Seconds(Callback):
        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            if "rollout" in outputs:
                seen.append(outputs["rollout"].seconds)

    trained(tmp_path, Seconds())
    (seconds,) = seen
    assert seconds["generate"] + seconds["reward"] + seconds["score"] <= seconds["collect"]


@pytest.mark.slow
@pytest.mark.multiprocess
def test_two_ranks_make_one_table(tmp_path: Path) -> None:
    tables = {}
    for ranks in (1, 2):
        words = [str(TESTS / "helpers" / "profiled_rank.py"), str(tmp_path / str(ranks)), str(ranks)]
        for done in run_ranks(words, rank_variables(ranks), seconds=120):
            assert done.returncode == 0, done.stderr[-2000:]
        tables[ranks] = read(tmp_path / str(ranks))
    (one, alone), (two, both) = tables[1], tables[2]
    assert (one["ranks"], two["ranks"]) == (1, 2)
    for name in ("updates", "rollouts", "rows_sampled", "rows_not_selected", "rows_not_run", "rows_run"):
        assert two[name] == one[name], name
    assert both["optimizer"]["calls"] == 2 * alone["optimizer"]["calls"], "summed over ranks"
    rows = [row for name, row in both.items() if name != "all"]
    assert sum(row["seconds"] for row in rows) == pytest.approx(two["wall_seconds"], rel=1e-9)
    assert all(row["seconds"] <= row["seconds_max"] <= 2 * row["seconds"] + 1e-9 for row in rows)
    assert list(table(tmp_path / "2" / "profile.md")["all"]) == list(COLUMNS)
