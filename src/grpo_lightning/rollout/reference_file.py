"""The reference policy in the run folder: written once, named by its hash."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.distributed.tensor import DTensor

from grpo_lightning.errors import GRPOError
from grpo_lightning.functional.sharded_tensors import gathered
from grpo_lightning.policies.base import Policy
from grpo_lightning.rollout import world

NAME = "reference.safetensors"


def freeze_reference(policy: Policy, path: Path) -> dict[str, str]:
    """The policy of now is the reference: written once, and named by its hash in every checkpoint. A collective.

    Args:
        policy: The policy.
        path: The file to write.

    Returns:
        ``path`` and ``sha256`` of the file; nothing where the reference is no weights of its own.
    """
    policy.freeze_reference()
    state = policy.reference_state()
    if state is None:
        return {}
    whole = {name: gathered(each) if isinstance(each, DTensor) else each for name, each in state.items()}
    kept = {name: each for name, each in whole.items() if each is not None}  # all of them on the first process
    digest = write_reference(path, kept) if world.rank() == 0 else ""
    return {"path": str(path.absolute()), "sha256": world.gather(digest)[0]}


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
