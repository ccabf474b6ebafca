from __future__ import annotations

from pathlib import Path

import pytest

from grpo_lightning.cli.run_folder import (
    ENVIRONMENT,
    RunFolder,
    claim_run_folder,
    create_run_folder,
    inherited_run_folder,
    newest_run,
    run_of_checkpoint,
)
from grpo_lightning.errors import ConfigError


def a_run(path: Path, *checkpoints: str) -> RunFolder:
    """A run folder with a configuration and checkpoints."""
    folder = RunFolder(path)
    folder.checkpoints.mkdir(parents=True)
    folder.config.write_text("{}")
    for name in checkpoints:
        (folder.checkpoints / name).touch()
    return folder


def test_runs_are_numbered(tmp_path: Path) -> None:
    names = [create_run_folder(tmp_path / "runs").path.name for _ in range(3)]
    assert names == ["001", "002", "003"]
    (tmp_path / "runs" / "041").mkdir()
    (tmp_path / "runs" / "notes").mkdir()
    assert create_run_folder(tmp_path / "runs").path.name == "042"


def test_two_that_start_at_once_get_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = Path.mkdir
    taken: list[Path] = []

    def another_is_faster(self: Path, *arguments: object, **options: object) -> None:
        if self.name == "001" and not taken:
            taken.append(self)
            make(self)
        make(self, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "mkdir", another_is_faster)
    assert create_run_folder(tmp_path).path.name == "002"


def test_a_named_folder_must_be_free(tmp_path: Path) -> None:
    assert claim_run_folder(tmp_path / "a" / "mine").path.is_dir()
    taken = a_run(tmp_path / "taken")
    with pytest.raises(ConfigError) as raised:
        claim_run_folder(taken.path)
    assert str(raised.value) == (
        f"run_folder: {str(taken.path)!r} holds a run already; choose another, or --resume {taken.path}"
    )
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be made"):
        claim_run_folder(tmp_path / "file" / "mine")


def test_the_newest_run_is_that_of_the_highest_number_with_a_checkpoint(tmp_path: Path) -> None:
    assert newest_run(tmp_path / "none") is None
    a_run(tmp_path / "002", "last.ckpt")
    a_run(tmp_path / "010", "last.ckpt")
    a_run(tmp_path / "011")
    assert newest_run(tmp_path) == RunFolder(tmp_path / "010")


def test_the_best_checkpoint_or_else_the_last(tmp_path: Path) -> None:
    assert a_run(tmp_path / "1").checkpoint() is None
    assert a_run(tmp_path / "2", "last.ckpt").checkpoint() == tmp_path / "2" / "checkpoints" / "last.ckpt"
    assert a_run(tmp_path / "3", "last.ckpt", "best.ckpt").checkpoint() == tmp_path / "3" / "checkpoints" / "best.ckpt"


def test_the_run_of_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = a_run(tmp_path / "001", "last.ckpt")
    assert run_of_checkpoint(folder.last) == folder
    monkeypatch.chdir(tmp_path)
    assert run_of_checkpoint(Path("001/checkpoints/last.ckpt")) == RunFolder(Path("001"))
    assert run_of_checkpoint(tmp_path / "elsewhere" / "last.ckpt") is None


def test_processes_of_a_run_share_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, "/runs/001")
    assert inherited_run_folder() is None, "the process that started them made it"
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert inherited_run_folder() == RunFolder(Path("/runs/001"))
    monkeypatch.delenv(ENVIRONMENT)
    assert inherited_run_folder() is None
