"""Files that are there whole or not at all: written beside their place, then renamed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

PREVIOUS = ".previous"
"""Ending of a checkpoint that makes room for the next, for the moment between two renames."""


def being_written(path: Path) -> Path:
    """Where the new content of ``path`` is written: beside it, for only there a rename is one step."""
    return path.with_name(path.name + ".part")


def put_in_place(part: Path, path: Path) -> None:
    """Let ``part``, which is complete, become ``path``.

    A file replaces a file in one step. A folder is in the way of any other content and is moved aside first; whoever finds
    nothing at ``path`` looks at :func:`complete`.
    """
    if part.is_file():
        _flush(part)
    if part.is_file() and not path.is_dir():
        part.replace(path)
    else:
        aside = path.with_name(path.name + PREVIOUS)
        if path.exists():
            remove(aside)
            path.rename(aside)
        part.rename(path)
        remove(aside)
    _flush(path.parent)


def complete(path: Path) -> Path:
    """``path``, or what it was before where a run ended between two renames."""
    aside = path.with_name(path.name + PREVIOUS)
    return aside if not path.exists() and aside.exists() else path


def remove(path: Path) -> None:
    """Remove a file or a folder, if there is one."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    """Have a file's content, or a folder's names, on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
