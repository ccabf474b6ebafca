"""The reference policy in the run folder: written once, named by its hash."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import Tensor

from grpo_lightning.errors import GRPOError

NAME = "reference.safetensors"


def write_reference(path: Path, state: Mapping[str, Tensor]) -> str:
    """Write the reference's tensors and return the hash of the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Tied weights share memory, which the format refuses: each name gets a copy of its own.
    save_file({name: tensor.detach().cpu().contiguous().clone() for name, tensor in state.items()}, path)
    return file_hash(path)


def read_reference(paths: list[Path], digest: str) -> dict[str, Tensor]:
    """The tensors of the first of ``paths`` whose content has the hash ``digest``.

    Raises:
        GRPOError: If none has.
    """
    for path in paths:
        if path.is_file() and file_hash(path) == digest:
            tensors: dict[str, Tensor] = load_file(path)
            return tensors
    places = ", ".join(str(path) for path in dict.fromkeys(paths))
    raise GRPOError(f"the reference policy of the checkpoint (sha256 {digest[:12]}...) is in none of: {places}")


def file_hash(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
