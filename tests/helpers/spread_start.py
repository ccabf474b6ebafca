"""One of several processes that start with weights which only the first one reads."""

from __future__ import annotations

import sys
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from grpo_lightning.policies import loading
from grpo_lightning.policies.causal_lm import CausalLM
from grpo_lightning.policies.lora import LoRA
from grpo_lightning.strategies.sharded_state import aliases, gathered_module_state
from grpo_lightning.strategies.spread_start import load_spread


class LoadsOnItsOwn(CausalLM):
    """Has a way to load, and no outline that belongs to it."""

    def load(self) -> None:
        super().load()


def starts(model: str, settings: dict[str, Any]) -> None:
    """Weights, buffers, what is tied, what is trained: as the policy of one process has them."""
    torch.manual_seed(0)
    alone = CausalLM(model=model, **settings)
    alone.load()
    policy = CausalLM(model=model, **settings)
    torch.manual_seed(dist.get_rank())
    read = loading.load_model
    loading.load_model = _refused if dist.get_rank() else read
    load_spread(policy, init_device_mesh("cpu", (dist.get_world_size(),)))
    loading.load_model = read
    assert policy.layout == alone.layout
    assert [name for name, each in policy.named_parameters() if each.requires_grad] == [
        name for name, each in alone.named_parameters() if each.requires_grad
    ]
    assert aliases(policy) == aliases(alone)
    assert {name: each.dtype for name, each in policy.named_parameters()} == {
        name: each.dtype for name, each in alone.named_parameters()
    }
    assert all(torch.equal(each, dict(policy.named_buffers())[name]) for name, each in alone.named_buffers())
    drawn: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(drawn, float(torch.rand(1)))
    assert len(set(drawn)) == 1
    whole = gathered_module_state(policy)
    if dist.get_rank() == 0:
        expected = alone.state_dict()
        assert whole.keys() == expected.keys()
        assert all(torch.equal(whole[name], each) for name, each in expected.items())


def _refused(*_: Any) -> Any:
    raise AssertionError("a process other than the first one reads weights")


def loads_everywhere(model: str) -> None:
    policy, reads = LoadsOnItsOwn(model=model), []
    read = loading.load_model
    loading.load_model = lambda *given: reads.append(1) or read(*given)
    load_spread(policy, init_device_mesh("cpu", (dist.get_world_size(),)))
    loading.load_model = read
    assert len(reads) == 1
    assert not any(each.is_meta for each in policy.parameters())


if __name__ == "__main__":
    dist.init_process_group(
        "gloo", rank=int(sys.argv[1]), world_size=int(sys.argv[2]), init_method=f"file://{sys.argv[3]}"
    )
    for path in sys.argv[4:]:
        starts(path, {})
        starts(path, {"dtype": "bfloat16", "lora": LoRA(rank=2)})
        starts(path, {"dtype": "float64", "lora": LoRA(rank=2), "activation_checkpointing": True, "layout": "padded"})
    loads_everywhere(sys.argv[4])
    dist.barrier()
    dist.destroy_process_group()
