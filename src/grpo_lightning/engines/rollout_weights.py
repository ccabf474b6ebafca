"""Weights of a policy made narrow for sampling: a model of its own for as long as it is needed."""

from __future__ import annotations

import copy
import logging
from typing import Any, Literal
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule

from grpo_lightning.engines.lean_linear import Packed

log = logging.getLogger(__name__)

WeightsType = Literal["auto", "own", "bfloat16"]
_packs: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def narrows(model: nn.Module, weights: WeightsType) -> bool:
    """Whether a model of float32 weights is to be run in bfloat16: if so set, or if autocast does so anyway."""
    parameters = list(model.parameters())
    sharded = any(isinstance(module, FSDPModule) for module in model.modules())
    if weights == "own" or not parameters or sharded or any(hasattr(each, "device_mesh") for each in parameters):
        return False
    device = parameters[0].device.type
    by_autocast = torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) == torch.bfloat16
    return (weights == "bfloat16" or by_autocast) and any(each.dtype == torch.float32 for each in parameters)


@torch.no_grad()
def narrowed(model: nn.Module) -> nn.Module:
    """A model of the same function with bfloat16 weights; weights that are shared stay so, ``model`` stays as it is.

    What the model wants in float32, and buffers, are not copied but shared with it. Adapters stay beside the weights that
    they adapt, as in training: added to them, much of what they learn would be lost to rounding.
    """
    wide = tuple(getattr(model, "_keep_in_fp32_modules_strict", None) or ())
    memo: dict[int, Any] = {id(each): each for each in model.buffers()}
    for name, each in model.named_parameters():
        keep = each.dtype != torch.float32 or any(part in name.split(".") for part in wide)
        new = each.detach() if keep else each.detach().to(torch.bfloat16)
        memo[id(each)] = nn.Parameter(new, requires_grad=False)
    return copy.deepcopy(model, memo)


def packs() -> bool:
    """Whether the CPU has units for products of bfloat16 matrices, which want weights in an order of their own."""
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


@torch.no_grad()
def packed(model: nn.Module, original: nn.Module) -> nn.Module:
    """``model`` with its linear layers laid out once as the CPU's matrix units want them, and not for each product.

    Args:
        model: Made by :func:`narrowed`; it is changed, if machine and model allow it.
        original: What it was made from, for which that is found out once.
    """
    if original not in _packs:
        _packs[original] = _packing_changes_nothing(model)
    if _packs[original]:
        pack_linears(model)
    return model


class PackedLinear(nn.Module):
    """A linear layer whose weight is laid out as the CPU's matrix units want it.

    Args:
        linear: Layer of bfloat16 weights; its plain weight is not kept.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features, self.bias = linear.in_features, linear.out_features, linear.bias
        self.weight = linear.weight.detach().to("meta")
        """What is asked for its type and shape."""
        self._packed = Packed(linear)

    def forward(self, hidden: Tensor) -> Tensor:
        """``hidden @ weight.T + bias``."""
        return self._packed(hidden)


def pack_linears(model: nn.Module) -> None:
    """Lay every linear layer of bfloat16 weights inside ``model`` out for the matrix units."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear and child.weight.dtype == torch.bfloat16:
                setattr(parent, name, PackedLinear(child))


def _packing_changes_nothing(model: nn.Module) -> bool:
    """Whether the machine and the model allow packed layers, found out by trying them on a few tokens."""
    first = next(model.parameters())
    if first.device.type != "cpu" or not packs():
        return False
    ids, same = torch.arange(6)[None], {id(each): each for each in [*model.parameters(), *model.buffers()]}
    laid_out = copy.deepcopy(model, same)
    with torch.autocast("cpu", enabled=False):
        try:
            pack_linears(laid_out)
            found, wanted = (each(input_ids=ids, use_cache=False).logits.float() for each in (laid_out, model))
        except (RuntimeError, AttributeError, TypeError) as error:
            log.debug("linear layers are not packed: %s", error)
            return False
    return bool((found - wanted).abs().max() <= 16 * torch.finfo(torch.bfloat16).eps * wanted.abs().max())
