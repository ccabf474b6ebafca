"""The weights of a policy as a file that servers read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import save_file
from torch import Tensor

from grpo_lightning.atomic_files import being_written, put_in_place, remove
from grpo_lightning.policies.base import Policy


@torch.no_grad()
def write_weights(policy: Policy, folder: Path, dtype: str, label: str, *, merge: bool = True) -> Path:
    """Write the weights and remove those that were written before.

    Args:
        policy: A causal language model, its weights whole.
        folder: Where to write: ``weights-LABEL.safetensors``.
        dtype: Type of the tensors in the file.
        label: What tells them from others.
        merge: Add adapters to what they adapt; otherwise they are left out.
    """
    path = folder / f"weights-{label}.safetensors"
    narrow: torch.dtype = getattr(torch, dtype)
    tensors = {name: tensor.to("cpu", narrow).contiguous() for name, tensor in merged_weights(policy, merge=merge)}
    save_file(tensors, being_written(path))
    put_in_place(being_written(path), path)
    for older in folder.glob("weights-*.safetensors"):
        if older != path:
            older.unlink(missing_ok=True)
    return path


def merged_weights(policy: Policy, *, merge: bool = True) -> Iterator[tuple[str, Tensor]]:
    """Every weight once, by the name that it has in the model's own checkpoints; with what adapters add, or without."""
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
        if own == "weight" and merge:
            for adapter in adapted[plain].active_adapters:
                merged = merged + adapted[plain].get_delta_weight(adapter)
        yield f"{plain}.{own}", merged


@torch.no_grad()
def write_adapter(policy: Policy, folder: Path, label: str) -> Path:
    """Write the adapter alone, as peft does, and remove those that were written before.

    Args:
        policy: A causal language model with LoRA, its weights whole.
        folder: Where to write: the folder ``adapter-LABEL``.
        label: What tells it from others.
    """
    path, model = folder / f"adapter-{label}", cast(Any, policy).model
    (adapter,) = model.peft_config
    own = {name: each for name, each in model.named_parameters() if "lora_" in name}
    tensors = {name.replace(f".{adapter}.", "."): each.to("cpu").contiguous() for name, each in own.items()}
    remove(being_written(path))
    being_written(path).mkdir()
    save_file(tensors, being_written(path) / "adapter_model.safetensors")
    model.peft_config[adapter].save_pretrained(being_written(path))
    put_in_place(being_written(path), path)
    for older in folder.glob("adapter-*"):
        if older != path:
            remove(older)
    return path
