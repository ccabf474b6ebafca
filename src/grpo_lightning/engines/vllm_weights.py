"""The weights of a policy as a file that servers read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from grpo_lightning.atomic_files import being_written, put_in_place
from grpo_lightning.policies.base import Policy


@torch.no_grad()
def write_weights(policy: Policy, folder: Path, dtype: str, version: int) -> Path:
    """Write the weights, adapters merged into what they adapt, and remove those of the version before.

    Args:
        policy: A causal language model, its weights whole.
        folder: Where to write: ``weights-VERSION.safetensors``.
        dtype: Type of the tensors in the file.
        version: Updates that the weights have seen.
    """
    path = folder / f"weights-{version}.safetensors"
    narrow: torch.dtype = getattr(torch, dtype)
    tensors = {name: tensor.to("cpu", narrow).contiguous() for name, tensor in merged_weights(policy)}
    save_file(tensors, being_written(path))
    put_in_place(being_written(path), path)
    for older in folder.glob("weights-*.safetensors"):
        if older != path:
            older.unlink(missing_ok=True)
    return path


def merged_weights(policy: Policy) -> Iterator[tuple[str, Tensor]]:
    """Every weight once, by the name that it has in the model's own checkpoints."""
    from peft.tuners.lora import Linear as AdaptedLinear

    model: Any = policy.causal_lm
    adapted = {name: module for name, module in model.named_modules() if isinstance(module, AdaptedLinear)}
    for name, weight in model.named_parameters():
        owner, _, own = name.rpartition(".")
        if "lora_" in name:
            continue
        if not owner.endswith(".base_layer"):
            yield name, weight
            continue
        plain = owner.removesuffix(".base_layer")
        merged = weight
        if own == "weight":
            for adapter in adapted[plain].active_adapters:
                merged = merged + adapted[plain].get_delta_weight(adapter)
        yield f"{plain}.{own}", merged
