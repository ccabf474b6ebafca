"""Tensors of which every process holds a part: gathered on the first process, and dealt out again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Shard


def gathered(tensor: Tensor) -> Tensor | None:
    """The whole of a tensor, on the CPU of the first process of its mesh; ``None`` on the others. A collective.

    Only the first process receives: the others never hold more than their part.
    """
    if not isinstance(tensor, DTensor):
        return tensor.detach().cpu() if dist.get_rank() == 0 else None
    mesh, own = tensor.device_mesh, tensor.to_local().detach()
    (placement,) = tensor.placements
    if not isinstance(placement, Shard):
        return own.cpu() if mesh.get_local_rank() == 0 else None
    bounds = list(_bounds(tensor.size(placement.dim), mesh.size()))
    padded = _padded(own, placement.dim, bounds)
    first = mesh.get_local_rank() == 0
    parts = [torch.empty_like(padded) for _ in bounds] if first else None
    group = mesh.get_group()
    dist.gather(padded, parts, dst=dist.get_global_rank(group, 0), group=group)
    if parts is None:
        return None
    own_sizes = [part.narrow(placement.dim, 0, stop - start) for part, (start, stop) in zip(parts, bounds, strict=True)]
    return torch.cat(own_sizes, placement.dim).cpu()


def scattered(whole: Tensor | None, like: Tensor) -> Tensor:
    """This process's part of a tensor that only the first process has; a collective. The inverse of :func:`gathered`.

    Args:
        whole: The tensor on the first process, ``None`` on the others.
        like: How it is spread, with or without numbers.
    """
    assert isinstance(like, DTensor)
    (placement,) = like.placements
    mesh, group, own = like.device_mesh, like.device_mesh.get_group(), like.to_local()
    source = dist.get_global_rank(group, 0)
    local = torch.empty(own.shape, dtype=own.dtype, device=mesh.device_type)
    if isinstance(placement, Shard):
        bounds = list(_bounds(like.size(placement.dim), mesh.size()))
        padded, parts = _padded(local, placement.dim, bounds), None
        if whole is not None:
            rows = [whole.detach().narrow(placement.dim, start, stop - start) for start, stop in bounds]
            parts = [_padded(each.to(mesh.device_type), placement.dim, bounds) for each in rows]
        dist.scatter(padded, parts, src=source, group=group)
        local.copy_(padded.narrow(placement.dim, 0, own.size(placement.dim)))
    else:
        if whole is not None:
            local.copy_(whole.detach())
        dist.broadcast(local, src=source, group=group)
    return _spread(local, like, like)


def own_part(whole: Tensor, like: DTensor) -> DTensor:
    """This process's part of a tensor that each can read whole, spread as ``like`` is; memory of its own."""
    (placement,) = like.placements
    part = whole
    if isinstance(placement, Shard):
        mesh = like.device_mesh
        start, stop = list(_bounds(whole.size(placement.dim), mesh.size()))[mesh.get_local_rank()]
        part = whole.narrow(placement.dim, start, stop - start)
    local = part.clone(memory_format=torch.contiguous_format).to(like.device)
    return _spread(local, like, whole)


def dealt_state(state: Mapping[str, Any], module: nn.Module) -> dict[str, Any]:
    """The whole state of a module; of what the module has spread over processes, :func:`own_part`. Not a collective."""
    own = module.state_dict()
    spread = {name: like for name, like in own.items() if isinstance(like, DTensor)}
    return {name: own_part(each, spread[name]) if name in spread else each for name, each in state.items()}


def _spread(local: Tensor, like: DTensor, whole: Tensor) -> DTensor:
    """This process's part of a tensor of the shape of ``whole`` that is spread as ``like`` is."""
    return DTensor.from_local(
        local, like.device_mesh, like.placements, run_check=False, shape=whole.shape, stride=whole.stride()
    )


def _padded(part: Tensor, dim: int, bounds: Sequence[tuple[int, int]]) -> Tensor:
    """A part with zeros after it, as large as the largest: all send, or are sent, equally much."""
    shape = list(part.shape)
    shape[dim] = bounds[0][1]
    padded = part.new_zeros(shape)
    padded.narrow(dim, 0, part.size(dim)).copy_(part)
    return padded


def _bounds(size: int, parts: int) -> Iterator[tuple[int, int]]:
    """Where each part of ``size`` rows begins and ends: as many as there can be for all, the last ones fewer or none."""
    rows = -(-size // parts)
    for index in range(parts):
        yield min(index * rows, size), min((index + 1) * rows, size)
