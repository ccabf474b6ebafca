from __future__ import annotations

from pathlib import Path

from lightning.pytorch.loggers import CSVLogger, WandbLogger

from grpo_lightning.callbacks.run_files import profile_file, run_files, run_folder, samples_file
from helpers.run_reports import ReportingModule, make_trainer


def test_folder_is_the_first_loggers(tmp_path: Path, wandb_folder: Path) -> None:
    csv, wandb = CSVLogger(tmp_path, name="a"), WandbLogger(save_dir=tmp_path / "b", offline=True)
    for loggers, expected in (([csv, wandb], csv.log_dir), ([wandb, csv], tmp_path / "b"), ([], tmp_path)):
        trainer = make_trainer(tmp_path, ReportingModule(), [], max_steps=1, loggers=loggers)  # type: ignore[arg-type]
        assert run_folder(trainer) == Path(expected)
        assert run_folder(trainer) == Path(str(trainer.log_dir))
        assert samples_file(trainer, "train") == Path(expected) / "samples" / "train.jsonl"


def test_only_what_exists_is_named(tmp_path: Path) -> None:
    logger = CSVLogger(tmp_path / "run")
    trainer = make_trainer(tmp_path, ReportingModule(), [], max_steps=1, loggers=[logger], checkpoints=True)
    assert run_files(trainer) == {}
    samples_file(trainer, "train").parent.mkdir(parents=True)
    assert set(run_files(trainer)) == {"run folder", "samples"}
    profile_file(trainer).write_text("")
    assert run_files(trainer)["profile"] == str(Path(logger.log_dir) / "profile.md")


def test_wandb_folder_is_named(wandb_folder: Path) -> None:
    logger = WandbLogger(project="tests", save_dir=wandb_folder, offline=True)
    trainer = make_trainer(wandb_folder, ReportingModule(), [], max_steps=1, loggers=[logger])
    assert Path(run_files(trainer)["wandb"]).name.startswith("offline-run-")
