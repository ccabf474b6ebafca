"""Checkpoints are there whole or not at all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from grpo_lightning.atomic_files import being_written, complete, put_in_place, remove
from grpo_lightning.errors import GRPOError
from grpo_lightning.strategies.checkpoint_files import CheckpointFiles


def make(path: Path, text: str, folder: bool) -> None:
    if folder:
        path.mkdir()
        (path / "file").write_text(text)
    else:
        path.write_text(text)


def content(path: Path) -> str:
    return (path / "file" if path.is_dir() else path).read_text()


@pytest.mark.parametrize("new", [False, True])
@pytest.mark.parametrize("old", [None, False, True])
def test_the_new_takes_the_place_of_the_old(old: bool | None, new: bool, tmp_path: Path) -> None:
    path = tmp_path / "last.ckpt"
    if old is not None:
        make(path, "old", old)
    part = being_written(path)
    make(part, "new", new)
    put_in_place(part, path)
    assert content(path) == "new"
    assert [each.name for each in tmp_path.iterdir()] == ["last.ckpt"]


def test_a_run_that_ended_between_two_renames_has_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "last.ckpt"
    assert complete(path) == path
    make(tmp_path / "last.ckpt.previous", "old", True)
    assert content(complete(path)) == "old"
    make(being_written(path), "new", True)
    put_in_place(being_written(path), path)
    assert content(complete(path)) == "new"
    remove(path)
    remove(path)
    assert not path.exists()


WRITER = """
import resource, sys, torch
from pathlib import Path
from grpo_lightning.strategies.checkpoint_files import CheckpointFiles
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
CheckpointFiles().save_checkpoint({"state_dict": {"w": torch.ones(100_000)}}, sys.argv[1])
"""


@pytest.mark.parametrize("before", [True, False])
def test_what_does_not_fit_leaves_the_one_before(before: bool, tmp_path: Path) -> None:
    path = tmp_path / "checkpoints" / "last.ckpt"
    if before:
        CheckpointFiles().save_checkpoint({"state_dict": {"w": torch.zeros(3)}}, path)
    done = subprocess.run([sys.executable, "-c", WRITER, str(path)], capture_output=True, text=True)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert f"the checkpoint {path} cannot be written" in last
    assert ("the one before is still there" in last) == before
    assert ("there is none before it" in last) != before
    assert [each.name for each in path.parent.iterdir()] == (["last.ckpt"] if before else [])
    if before:
        assert CheckpointFiles().load_checkpoint(path)["state_dict"]["w"].tolist() == [0, 0, 0]


def test_a_place_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(GRPOError, match="cannot be written"):
        CheckpointFiles().save_checkpoint({}, tmp_path / "file" / "last.ckpt")
