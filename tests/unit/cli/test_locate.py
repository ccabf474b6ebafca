from __future__ import annotations

from pathlib import Path

import pytest

from grpo_lightning.cli.arguments import parse_arguments
from grpo_lightning.cli.locate import Place, Plan, default_config, new_place, plan
from grpo_lightning.cli.run_folder import ENVIRONMENT, RunFolder
from grpo_lightning.cli.run_settings import RunSettings
from grpo_lightning.errors import ConfigError


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (ENVIRONMENT, "LOCAL_RANK", "RANK", "WORLD_SIZE", "SLURM_NTASKS", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)


def a_run(name: str, *checkpoints: str) -> RunFolder:
    folder = RunFolder(Path("runs") / name)
    folder.checkpoints.mkdir(parents=True)
    folder.config.write_text(f"save_every: {int(name)}\n")
    for checkpoint in checkpoints:
        (folder.checkpoints / checkpoint).touch()
    return folder


def planned(command: str, *words: str) -> Plan:
    return plan(command, parse_arguments(words))


def fault(command: str, *words: str) -> str:
    with pytest.raises(ConfigError) as raised:
        planned(command, *words)
    return str(raised.value)


def test_fit_without_a_configuration_is_the_embedded_run() -> None:
    assert planned("fit") == Plan(default_config(), None, None)
    changed = planned("fit", "--trainer.max_steps", "3").config
    assert changed["trainer"] == {**default_config()["trainer"], "max_steps": 3}


def test_configurations_lie_over_each_other_and_words_over_them() -> None:
    Path("a.yaml").write_text("model: {loss: clipped, group_size: 4}\nsave_every: 1\n")
    Path("b.yaml").write_text("model: {loss: {epsilon_high: 0.3}}\n")
    found = planned("fit", "--model.group_size", "2", "-c", "a.yaml", "-c", "b.yaml", "--model.loss.epsilon_low=0.1")
    loss = {"name": "clipped", "epsilon_high": 0.3, "epsilon_low": 0.1}
    assert found == Plan({"model": {"loss": loss, "group_size": 2}, "save_every": 1}, None, None)


def test_resume_auto_takes_the_newest_run_or_starts_one() -> None:
    assert planned("fit", "--resume", "auto").folder is None
    folder = a_run("001", "last.ckpt")
    a_run("002")
    found = planned("fit", "--resume", "auto", "--wandb")
    assert found == Plan({"save_every": 1, "resume": "auto", "wandb": True}, folder, folder.last)


def test_resume_by_folder_or_checkpoint() -> None:
    folder = a_run("001", "last.ckpt", "best.ckpt")
    assert planned("fit", "--resume", "runs/001").checkpoint == folder.last
    assert planned("fit", "--resume", "runs/001/checkpoints/best.ckpt").checkpoint == folder.best
    Path("elsewhere.ckpt").touch()
    outside = planned("fit", "--resume", "elsewhere.ckpt")
    assert (outside.folder, outside.checkpoint) == (None, Path("elsewhere.ckpt"))


def test_a_configuration_says_how_to_resume_another_run() -> None:
    folder = a_run("001", "last.ckpt")
    Path("a.yaml").write_text("save_every: 9\nresume: auto\n")
    assert planned("fit", "-c", "a.yaml") == Plan({"save_every": 9, "resume": "auto"}, folder, folder.last)


def test_evaluation_finds_the_newest_run_by_itself() -> None:
    a_run("001", "best.ckpt")
    newest = a_run("002", "last.ckpt")
    assert planned("test") == Plan({"save_every": 2}, newest, newest.last)


def test_evaluation_of_a_named_run_or_checkpoint() -> None:
    first = a_run("001", "best.ckpt", "last.ckpt")
    second = a_run("002", "last.ckpt")
    assert planned("test", "--run", "runs/001").checkpoint == first.best
    by_checkpoint = planned("test", "--ckpt_path", str(first.last))
    assert (by_checkpoint.folder, by_checkpoint.checkpoint) == (RunFolder(first.path), first.last)
    mixed = planned("test", "--run", "runs/002", "--ckpt_path", str(first.last))
    assert (mixed.folder, mixed.checkpoint, mixed.config["save_every"]) == (second, first.last, 2)
    by_config = planned("test", "--config", str(first.config))
    assert (by_config.folder, by_config.checkpoint) == (first, first.best)


def test_evaluation_of_another_folder_of_runs() -> None:
    a_run("001", "last.ckpt")
    Path("runs").rename("others")
    assert planned("predict", "--runs_folder", "others").folder == RunFolder(Path("others/001"))


@pytest.mark.parametrize(
    ("command", "words", "message"),
    [
        ("fit", ["--resume", "none"], "resume: 'none' does not exist; give a checkpoint, a run folder, or auto"),
        ("fit", ["--resume", "runs/005"], "resume: 'runs/005' has no last.ckpt; give another run, or a checkpoint"),
        ("fit", ["--config", "none.yaml"], "config: 'none.yaml' does not exist; check the path"),
        ("test", [], "run: None is not found: runs holds no run with a checkpoint; "
         "train one with fit, or name one with --run"),
        ("test", ["--run", "runs/009"], "run: 'runs/009' does not exist; give a folder such as runs/001"),
        ("test", ["--run", "runs/005"], "run: 'runs/005' has no checkpoint; train it, or name one with --ckpt_path"),
        ("test", ["--ckpt_path", "none"], "ckpt_path: 'none' does not exist; give a checkpoint of a run"),
    ],
)  # fmt: skip
def test_what_is_not_there(command: str, words: list[str], message: str) -> None:
    a_run("005")
    assert fault(command, *words) == message


def test_a_new_run_gets_the_next_number_or_the_named_folder() -> None:
    assert new_place(RunSettings()) == Place(RunFolder(Path("runs/001")), new=True)
    assert new_place(RunSettings(run_folder="mine")) == Place(RunFolder(Path("mine")), new=True)


def test_a_process_that_lightning_started_takes_its_parents_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, "/runs/001")
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert new_place(RunSettings()) == Place(RunFolder(Path("/runs/001")), new=False)


def test_processes_of_another_launcher_must_be_told_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(ConfigError) as raised:
        new_place(RunSettings())
    assert str(raised.value) == (
        "run_folder: None is missing for processes that something else has started; set it, the same for all of them"
    )
    assert new_place(RunSettings(run_folder="mine")).new
    monkeypatch.setenv("RANK", "1")
    assert new_place(RunSettings(run_folder="mine")) == Place(RunFolder(Path("mine")), new=False)
