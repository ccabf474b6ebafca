from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lightning.pytorch.callbacks import EarlyStopping
from lightning.pytorch.loggers import WandbLogger

from grpo_lightning.callbacks.phase_profile import PhaseProfile
from grpo_lightning.callbacks.sample_log import SampleLog
from grpo_lightning.cli.checkpoints import BestCheckpoint, LastCheckpoint
from grpo_lightning.cli.csv_log import ContinuedCSVLogger
from grpo_lightning.cli.run_folder import RunFolder
from grpo_lightning.cli.run_settings import EarlyStoppingSettings, RunSettings, WandbSettings
from grpo_lightning.cli.trainer_defaults import OWN_CALLBACKS, run_callbacks, run_loggers
from grpo_lightning.errors import ConfigError
from helpers.configured_classes import built_ins


def callbacks(
    tmp_path: Path, command: str, settings: RunSettings, validation: list[str], given: Any = None
) -> list[Any]:
    return list(run_callbacks(RunFolder(tmp_path), settings, command, validation, given, built_ins()))


def test_the_profile_comes_before_the_report_that_names_its_file(tmp_path: Path) -> None:
    assert isinstance(callbacks(tmp_path, "fit", RunSettings(profile=True), [])[0], PhaseProfile)
    assert not [each for each in callbacks(tmp_path, "fit", RunSettings(), []) if isinstance(each, PhaseProfile)]


def test_callbacks_of_fit(tmp_path: Path) -> None:
    found = callbacks(tmp_path, "fit", RunSettings(save_every=7), ["held_out", "other"])
    assert [getattr(each, "name", None) for each in found[:4]] == list(OWN_CALLBACKS)
    last, best = found[4:]
    assert isinstance(last, LastCheckpoint)
    assert last._every_n_train_steps == 7
    assert isinstance(best, BestCheckpoint)
    assert best.monitor == "validation/held_out/reward"


def test_without_validation_there_is_no_best(tmp_path: Path) -> None:
    assert not [each for each in callbacks(tmp_path, "fit", RunSettings(), []) if isinstance(each, BestCheckpoint)]


def test_evaluation_saves_nothing(tmp_path: Path) -> None:
    assert len(callbacks(tmp_path, "test", RunSettings(), ["held_out"])) == len(OWN_CALLBACKS)


def test_one_of_the_users_replaces_ours(tmp_path: Path) -> None:
    found = callbacks(tmp_path, "test", RunSettings(), [], [SampleLog()])
    assert [each.name for each in found] == [name for name in OWN_CALLBACKS if name != "sample_log"]


def test_early_stopping_watches_the_first_set(tmp_path: Path) -> None:
    settings = RunSettings(early_stopping=EarlyStoppingSettings(patience=2, min_delta=0.1))
    stopping = callbacks(tmp_path, "fit", settings, ["held_out"])[-1]
    assert isinstance(stopping, EarlyStopping)
    assert (stopping.monitor, stopping.mode, stopping.patience) == ("validation/held_out/reward", "max", 2)
    with pytest.raises(ConfigError, match="early_stopping: None has no metric to watch"):
        callbacks(tmp_path, "fit", settings, [])
    own = RunSettings(early_stopping=EarlyStoppingSettings(monitor="train/x"))
    assert callbacks(tmp_path, "fit", own, [])[-1].monitor == "train/x"


def test_csv_always(tmp_path: Path) -> None:
    (logger,) = run_loggers(RunFolder(tmp_path), RunSettings(), "fit", resumed=False)
    assert isinstance(logger, ContinuedCSVLogger)
    assert Path(logger.log_dir) == tmp_path
    (logger,) = run_loggers(RunFolder(tmp_path), RunSettings(), "test", resumed=False)
    assert Path(logger.log_dir) == tmp_path / "test"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("environment", "wanted", "offline"),
    [
        ({}, True, True),
        ({"WANDB_API_KEY": "k"}, True, False),
        ({"WANDB_MODE": "online"}, True, False),
        ({"WANDB_MODE": "offline", "WANDB_API_KEY": "k"}, True, True),
        ({}, WandbSettings(offline=False), False),
        ({"WANDB_MODE": "online"}, WandbSettings(offline=True), True),
    ],
)
def test_wandb_is_offline_unless_told_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], wanted: Any, offline: bool
) -> None:
    for name in ("WANDB_MODE", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    _, logger = run_loggers(RunFolder(tmp_path), RunSettings(wandb=wanted), "fit", resumed=False)
    assert isinstance(logger, WandbLogger)
    assert logger._offline is offline
    assert logger._wandb_init["project"] == "grpo_lightning"
    assert logger._wandb_init["name"] == tmp_path.name
    assert logger.save_dir == str(tmp_path)


def test_a_resumed_run_keeps_its_wandb_id(tmp_path: Path) -> None:
    folder, settings = RunFolder(tmp_path), RunSettings(wandb=WandbSettings(name="mine"))
    first, second = (run_loggers(folder, settings, "fit", resumed=resumed)[1] for resumed in (False, True))
    assert first._id == second._id  # type: ignore[attr-defined]
    assert first._wandb_init["name"] == "mine"  # type: ignore[attr-defined]
