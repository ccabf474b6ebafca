"""The layers of a model of transformers, and copies of models whose layers are sharded."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, fully_shard

from grpo_lightning.functional.sharded_tensors import dealt_state


def layers(model: nn.Module) -> list[nn.Module]:
    """The parts of a model that follow each other and look alike, as the model itself names them; none if it does not."""
    from transformers.modeling_layers import GradientCheckpointingLayer

    return [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]


def shard_layers(model: nn.Module, root: nn.Module, mesh: Any) -> None:
    """Spread the weights of a model over the processes of a mesh, layer by layer; ``root`` is the outermost module.

    Embedding, head and last norm, which belong to no layer, stay whole once they have been gathered, until somebody gives
    them back: the head's gradient reads its weight again.
    """
    parts: list[Any] = [fully_shard(layer, mesh=mesh) for layer in layers(model)]
    parts.insert(0, fully_shard(root, mesh=mesh, reshard_after_forward=False))
    # Said explicitly, since torch would go by the passes that a process made before, and those without gradient differ.
    for before, part in zip([*parts[-1:], *parts[:-1]], parts, strict=True):
        part.set_modules_to_backward_prefetch([before])


@torch.no_grad()
def frozen_copy(model: Any, mesh: Any) -> Any:
    """A copy of a model that is not trained; weights that are shared stay so.

    Args:
        model: A model of transformers.
        mesh: The mesh over which its weights are spread, and those of the copy, which copies parts; ``None`` if they are not.
    """
    if mesh is None:
        return copy.deepcopy(model).requires_grad_(False)
    with torch.device("meta"):
        result = type(model)(model.config)
    result.tie_weights()
    result.requires_grad_(False)
    shard_layers(result, result, mesh)
    result.load_state_dict({name: each.detach().clone() for name, each in model.state_dict().items()}, assign=True)
    for name, buffer in model.named_buffers():
        parent, _, own = name.rpartition(".")
        setattr(result.get_submodule(parent), own, buffer.clone())
    result.requires_grad_(False)
    gather_outermost(result)
    return result.train(model.training)


def load_frozen(model: Any, state: Mapping[str, Tensor]) -> None:
    """Give a copy these weights, each process its part of them where they are spread. A collective then."""
    model.load_state_dict(dealt_state(state, model))
    gather_outermost(model)


def gather_outermost(model: Any) -> None:
    """Have what belongs to no layer whole again, where weights are spread: looking at a state gives it back. A collective."""
    if isinstance(model, FSDPModule):
        model.unshard()
