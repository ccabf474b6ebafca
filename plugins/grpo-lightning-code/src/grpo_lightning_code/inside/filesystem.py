"""The files that a candidate sees: a root of its own with the chosen paths, all read-only, and one small folder."""

from __future__ import annotations

import os
from collections.abc import Sequence

from grpo_lightning_code.inside import kernel

HOME = "/box"
HARNESS = "/harness"
_OLD = "/.old"
_DEVICES = ("null", "zero", "urandom", "random")
_STAGES = ("/tmp", "/mnt", "/run", "/opt", "/usr")


def build_root(*, show: Sequence[str], harness: str, owner: int, disk_bytes: int, files: int) -> None:
    """Replace the root folder of this mount namespace.

    Args:
        show: Files and folders of the machine that are visible, at their own paths; what is missing is left out.
        harness: This package's folder, visible inside :data:`HARNESS`.
        owner: User and group of :data:`HOME`, the only place that can be written.
        disk_bytes: Bytes that fit into it.
        files: Files and folders that fit into it.

    Raises:
        OSError: If a mount is refused.
    """
    kernel.mount("none", "/", "none", kernel.MS_REC | kernel.MS_PRIVATE)
    stage = next(path for path in _STAGES if os.path.isdir(path))
    flags = kernel.MS_NOSUID | kernel.MS_NODEV
    kernel.mount("tmpfs", stage, "tmpfs", flags, "size=1m,nr_inodes=4096,mode=755")
    os.mkdir(stage + _OLD)
    kernel.pivot_root(stage, stage + _OLD)
    os.chdir("/")
    for path in show:
        _show(_OLD + path, path)
    _show(_OLD + harness, HARNESS + "/inside")
    for device in _DEVICES:
        _bind(f"{_OLD}/dev/{device}", f"/dev/{device}")
        kernel.read_only(f"/dev/{device}")  # what is written to a device still is; its dates are the machine's
    os.mkdir(HOME)
    options = f"size={disk_bytes},nr_inodes={files},mode=700,uid={owner},gid={owner}"
    kernel.mount("tmpfs", HOME, "tmpfs", flags | kernel.MS_NOEXEC, options)
    os.symlink(HOME, "/tmp")
    kernel.detach(_OLD)
    os.rmdir(_OLD)
    kernel.mount("none", "/", "none", kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | flags)
    os.chdir(HOME)


def _show(source: str, target: str) -> None:
    """Make ``source`` visible as ``target``, read-only; a link stays a link."""
    if os.path.islink(source):
        os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
        if not os.path.lexists(target):
            os.symlink(os.readlink(source), target)
    elif os.path.exists(source):
        _bind(source, target)
        kernel.read_only(target)


def _bind(source: str, target: str) -> None:
    if os.path.isdir(source):
        os.makedirs(target, mode=0o755, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    kernel.mount(source, target, "none", kernel.MS_BIND | kernel.MS_REC)
