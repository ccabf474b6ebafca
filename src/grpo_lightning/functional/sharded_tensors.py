"""Tensors of which every process holds a part: gathered on the first process, and dealt out again."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor
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
    shape = list(own.shape)
    shape[placement.dim] = bounds[0][1]
    padded = own.new_zeros(shape)  # all send equally much
    padded.narrow(placement.dim, 0, own.size(placement.dim)).copy_(own)
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
    mesh, group = like.device_mesh, like.device_mesh.get_group()
    own = like.to_local()
    source = dist.get_global_rank(group, 0)
    if not isinstance(placement, Shard):
        local = torch.empty(own.shape, dtype=own.dtype, device=mesh.device_type) if whole is None else whole.detach()
        local = local.to(mesh.device_type).contiguous()
        dist.broadcast(local, src=source, group=group)
    else:
        bounds = list(_bounds(like.size(placement.dim), mesh.size()))
        shape = list(own.shape)
        shape[placement.dim] = bounds[0][1]
        padded = torch.empty(shape, dtype=own.dtype, device=mesh.device_type)  # all are sent equally much
        parts = None if whole is None else [_padded(whole, placement.dim, each, padded) for each in bounds]
        dist.scatter(padded, parts, src=source, group=group)
        local = padded.narrow(placement.dim, 0, own.size(placement.dim)).contiguous()
    return DTensor.from_local(local, mesh, like.placements, run_check=False, shape=like.shape, stride=like.stride())


def _padded(whole: Tensor, dim: int, bounds: tuple[int, int], like: Tensor) -> Tensor:
    """Rows of a tensor, with as many zeros after them as ``like`` has room for."""
    start, stop = bounds
    part = torch.zeros_like(like)
    part.narrow(dim, 0, stop - start).copy_(whole.detach().narrow(dim, start, stop - start))
    return part


def own_part(whole: Tensor, like: DTensor) -> DTensor:
    """This process's part of a tensor that each can read whole, spread as ``like`` is; memory of its own."""
    (placement,) = like.placements
    part = whole
    if isinstance(placement, Shard):
        mesh = like.device_mesh
        start, stop = list(_bounds(whole.size(placement.dim), mesh.size()))[mesh.get_local_rank()]
        part = whole.narrow(placement.dim, start, stop - start)
    local = part.clone(memory_format=torch.contiguous_format).to(like.device)
    return DTensor.from_local(
        local, like.device_mesh, like.placements, run_check=False, shape=whole.shape, stride=whole.stride()
    )


def dealt(whole: Tensor, like: Tensor | None) -> Tensor:
    """:func:`own_part` where ``like`` is spread over processes, else ``whole`` itself."""
    return own_part(whole, like) if isinstance(like, DTensor) else whole


def _bounds(size: int, parts: int) -> Iterator[tuple[int, int]]:
    """Where each part of ``size`` rows begins and ends: as many as there can be for all, the last ones fewer or none."""
    rows = -(-size // parts)
    for index in range(parts):
        yield min(index * rows, size), min((index + 1) * rows, size)
