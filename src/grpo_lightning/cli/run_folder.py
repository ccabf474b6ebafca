"""Where a run writes: numbered folders, found again by the commands that come after."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from grpo_lightning.atomic_files import complete
from grpo_lightning.errors import ConfigError

ENVIRONMENT = "GRPO_LIGHTNING_RUN_FOLDER"
"""Tells the processes that a run starts where it writes."""


@dataclass(frozen=True)
class RunFolder:
    """The files of one run."""

    path: Path

    @property
    def config(self) -> Path:
        """Its whole configuration."""
        return self.path / "config.yaml"

    @property
    def checkpoints(self) -> Path:
        """Folder of its checkpoints."""
        return self.path / "checkpoints"

    @property
    def last(self) -> Path:
        """Its newest checkpoint: a file, or a folder of all processes' parts."""
        return complete(self.checkpoints / "last.ckpt")

    @property
    def best(self) -> Path:
        """Its best checkpoint by validation."""
        return complete(self.checkpoints / "best.ckpt")

    def checkpoint(self) -> Path | None:
        """The best checkpoint, or else the last; ``None`` before the first."""
        return next((each for each in (self.best, self.last) if each.exists()), None)


def create_run_folder(runs_folder: Path) -> RunFolder:
    """Make the next numbered folder; two runs that start at once get two."""
    runs_folder.mkdir(parents=True, exist_ok=True)
    number = max((int(path.name) for path in _numbered(runs_folder)), default=0) + 1
    while True:
        folder = runs_folder / f"{number:03d}"
        try:
            folder.mkdir()
        except FileExistsError:
            number += 1
            continue
        return RunFolder(folder)


def claim_run_folder(path: Path, *, again: bool = False) -> RunFolder:
    """Use a folder that the user names, which must not hold another run.

    Args:
        path: The folder.
        again: It may hold one that has no checkpoint: a run that ended before its first one starts over.

    Raises:
        ConfigError: If it holds one.
    """
    folder = RunFolder(path)
    over = again and folder.checkpoint() is None
    if not over and (folder.config.exists() or folder.checkpoints.exists()):
        raise ConfigError("run_folder", str(path), "holds a run already", f"choose another, or --resume {path}")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError("run_folder", str(path), f"cannot be made ({error})", "choose another") from None
    return folder


def newest_run(runs_folder: Path) -> RunFolder | None:
    """The run of the highest number that has a checkpoint and its configuration; ``None`` if there is none."""
    for path in sorted(_numbered(runs_folder), key=lambda path: int(path.name), reverse=True):
        folder = RunFolder(path)
        if folder.checkpoint() is not None and folder.config.exists():
            return folder
    return None


def run_of_checkpoint(path: Path) -> RunFolder | None:
    """The run that a checkpoint belongs to; ``None`` if it lies in no run folder."""
    folder = RunFolder(path.absolute().parent.parent)
    return RunFolder(path.parent.parent) if folder.config.exists() else None


def inherited_run_folder() -> RunFolder | None:
    """The folder that the process which started this one uses; ``None`` in a process of its own."""
    named = os.environ.get(ENVIRONMENT)
    return RunFolder(Path(named)) if named and os.environ.get("LOCAL_RANK", "0") != "0" else None


def _numbered(runs_folder: Path) -> list[Path]:
    if not runs_folder.is_dir():
        return []
    return [path for path in runs_folder.iterdir() if path.name.isdigit() and path.is_dir()]
