"""The layers of a model of transformers, and copies of models whose layers are sharded."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor


def layers(model: nn.Module) -> list[nn.Module]:
    """The parts of a model that follow each other and look alike, as the model itself names them; none if it does not."""
    from transformers.modeling_layers import GradientCheckpointingLayer

    return [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]


@torch.no_grad()
def unsharded_copy(model: Any) -> Any:
    """A copy of a model, weights that are shared stay so; of one that is sharded, a plain one, which is a collective."""
    if not any(isinstance(module, FSDPModule) for module in model.modules()):
        return copy.deepcopy(model)
    with torch.device("meta"):
        result = type(model)(model.config)
    weights = {name: _gathered(each.detach()) for name, each in model.named_parameters()}
    result.load_state_dict(weights, strict=False, assign=True)
    for name, buffer in model.named_buffers():
        parent, _, own = name.rpartition(".")
        setattr(result.get_submodule(parent), own, buffer.clone())
    result.tie_weights()
    return result.train(model.training)


def _gathered(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor.clone()
