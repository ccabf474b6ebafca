"""Checkpoints in which every process has written its own part: a folder of torch's distributed checkpoints."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.tensor import DTensor

from grpo_lightning.atomic_files import being_written, put_in_place
from grpo_lightning.rollout import world
from grpo_lightning.strategies.sharded_state import aliases, numbered_parameters

REST = "meta.pt"
"""All that is not a tensor of the model or of an optimizer; written last, so that a folder that has it is complete."""
_MODEL, _OPTIMIZER = "model", "optimizer"


def write(checkpoint: dict[str, Any], module: nn.Module, optimizers: list[Any], path: Path) -> None:
    """Write a checkpoint into the folder ``path``, which is there once it is complete. A collective.

    Args:
        checkpoint: What Lightning keeps, without weights and moments.
        module: Its weights; those that are sharded are written by the process that has them.
        optimizers: Their moments.
        path: Folder; what was there before stays until the new one is complete.
    """
    part = being_written(path)

    def begin() -> None:
        if world.rank() == 0:
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(parents=True)

    def finish() -> None:
        if world.rank() == 0:
            torch.save(checkpoint | {"aliases": same}, part / REST)
            put_in_place(part, path)

    same = aliases(module)
    tensors: dict[str, Any] = {
        f"{_MODEL}.{name}": value for name, value in module.state_dict().items() if name not in same
    }
    for index, optimizer in enumerate(optimizers):
        for number, values in optimizer.state_dict()["state"].items():
            tensors |= {f"{_OPTIMIZER}.{index}.{number}.{name}": value for name, value in values.items()}
    world.together(begin)
    world.together(lambda: save(tensors, checkpoint_id=part))
    world.together(finish)


def read_into(path: Path, module: nn.Module, optimizers: list[Any]) -> dict[str, Any]:
    """Read a folder into a module and optimizers, each process its own part; not a collective.

    Returns:
        What else the checkpoint holds.
    """
    rest = read_rest(path)
    tensors: dict[str, Any] = {
        f"{_MODEL}.{name}": value for name, value in module.state_dict().items() if name not in rest["aliases"]
    }
    states: list[dict[int, dict[str, Any]]] = [{} for _ in optimizers]
    for name, stored in _stored(path).items():
        kind, _, address = name.partition(".")
        if kind == _OPTIMIZER and optimizers:
            index, number, key = address.split(".", 2)
            parameter = numbered_parameters(optimizers[int(index)])[int(number)]
            value = _empty(stored, parameter)
            tensors[name] = states[int(index)].setdefault(int(number), {})[key] = value
    _load(tensors, path)
    for optimizer, state, saved in zip(optimizers, states, rest.pop("optimizer_states"), strict=False):
        optimizer.load_state_dict(saved | {"state": state})
    return rest


def read_whole(path: Path) -> dict[str, Any]:
    """A folder as the one file that it could have been; not a collective."""
    rest = read_rest(path)
    tensors = {name: _empty(stored, None) for name, stored in _stored(path).items()}
    _load(tensors, path)
    weights: dict[str, Any] = {}
    for name, value in tensors.items():
        kind, _, address = name.partition(".")
        if kind == _MODEL:
            weights[address] = value
        else:
            index, number, key = address.split(".", 2)
            states = rest["optimizer_states"][int(index)].setdefault("state", {})
            states.setdefault(int(number), {})[key] = value
    weights |= {name: weights[other] for name, other in rest.pop("aliases").items()}
    for saved in rest["optimizer_states"]:
        saved.setdefault("state", {})
    return rest | {"state_dict": weights}


def read_rest(path: Path) -> dict[str, Any]:
    """What a folder holds beside weights and moments."""
    return torch.load(path / REST, map_location="cpu", weights_only=True)  # type: ignore[no-any-return]


def _stored(path: Path) -> Mapping[str, Any]:
    stored: Mapping[str, Any] = FileSystemReader(path).read_metadata().state_dict_metadata
    return stored


def _empty(stored: Any, parameter: Tensor | None) -> Any:
    """Room for what is stored: spread as the parameter that it belongs to where it has its shape; ``None`` for no tensor."""
    if not isinstance(stored, TensorStorageMetadata):
        return None
    dtype = stored.properties.dtype
    if isinstance(parameter, DTensor) and stored.size == parameter.shape:
        return torch.zeros_like(parameter, dtype=dtype, requires_grad=False)
    return torch.empty(stored.size, dtype=dtype)


def _load(tensors: dict[str, Any], path: Path) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        load(tensors, checkpoint_id=path, no_dist=True)
