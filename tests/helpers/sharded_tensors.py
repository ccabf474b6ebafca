"""One of several processes that gathers tensors which all hold a part of, and takes its part of whole ones again."""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

from grpo_lightning.functional.sharded_tensors import gathered, own_part, scattered
from grpo_lightning.strategies.sharded_state import (
    gathered_module_state,
    gathered_optimizer_state,
    load_module_state,
    load_optimizer_state,
)


class Tied(nn.Module):
    """Sizes that no number of processes divides; the last weight is the first one."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.body, self.head = nn.Embedding(7, 3), nn.Linear(3, 3), nn.Linear(3, 7, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("count", torch.arange(2))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.embed(ids)))


def tensors() -> None:
    """Any size, along any dimension, whole where it is whole everywhere."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for shape, placement in [
        ((1, 2), Shard(0)), ((5, 3), Shard(0)), ((4,), Shard(0)), ((3, 5), Shard(1)), ((2, 2), Replicate())
    ]:  # fmt: skip
        whole = torch.arange(torch.tensor(shape).prod().item(), dtype=torch.float64).reshape(shape)
        spread = distribute_tensor(whole, mesh, [placement])
        found = gathered(spread)
        assert (found is not None) == (dist.get_rank() == 0)
        assert found is None or torch.equal(found, whole)
        again = scattered(whole if dist.get_rank() == 0 else None, spread)
        assert torch.equal(again.to_local(), spread.to_local())
        assert (again.shape, again.stride(), again.placements) == (whole.shape, whole.stride(), spread.placements)
        part = own_part(whole, spread)
        assert torch.equal(part.to_local(), spread.to_local())
        assert part.shape == whole.shape
        assert not whole.numel() or part.to_local().data_ptr() != whole.data_ptr()


def states() -> None:
    """A module and its optimizer, gathered, loaded into others, train on equally."""
    torch.manual_seed(3)
    plain, ids = Tied(), torch.tensor([0, 3, 6])

    def step(module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad()
        module(ids).logsumexp(-1).square().sum().backward()
        optimizer.step()

    def sharded() -> tuple[nn.Module, torch.optim.Optimizer]:
        module = Tied()
        fully_shard(module, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
        return module, torch.optim.AdamW(module.parameters(), lr=0.1)

    optimizer = torch.optim.AdamW(plain.parameters(), lr=0.1)
    step(plain, optimizer)
    module, own = sharded()
    load_module_state(module, plain.state_dict(), strict=True)
    load_optimizer_state(own, optimizer.state_dict())
    weights, moments = gathered_module_state(module), gathered_optimizer_state(own)
    if dist.get_rank() == 0:
        assert weights.keys() == plain.state_dict().keys()
        assert all(torch.equal(weights[name], each) for name, each in plain.state_dict().items())
        assert weights["head.weight"] is weights["embed.weight"]
        for number, values in optimizer.state_dict()["state"].items():
            assert all(torch.equal(torch.as_tensor(moments["state"][number][name]), v) for name, v in values.items())
    else:
        assert weights == {}
    step(plain, optimizer)
    step(module, own)
    again = gathered_module_state(module)
    if dist.get_rank() == 0:
        assert all(torch.allclose(again[name], each, atol=1e-12) for name, each in plain.state_dict().items())


if __name__ == "__main__":
    dist.init_process_group(
        "gloo", rank=int(sys.argv[1]), world_size=int(sys.argv[2]), init_method=f"file://{sys.argv[3]}"
    )
    torch.set_default_dtype(torch.float64)
    tensors()
    states()
    dist.barrier()
    dist.destroy_process_group()
