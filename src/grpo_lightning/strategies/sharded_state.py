"""The state of sharded weights and optimizers: gathered on the first process, and dealt out again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from grpo_lightning.functional.sharded_tensors import dealt_state, gathered, own_part


def aliases(module: nn.Module) -> dict[str, str]:
    """Names of parameters that share the memory of another, with that one's name."""
    first: dict[int, str] = {}
    found = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        if first.setdefault(id(parameter), name) != name:
            found[name] = first[id(parameter)]
    return found


def gathered_module_state(module: nn.Module) -> dict[str, Any]:
    """The state of a module, whole on the first process and empty on the others; tied weights once. A collective."""
    same = aliases(module)
    state: dict[str, Any] = {}
    for name, tensor in module.state_dict().items():
        state[name] = state[same[name]] if same.get(name) in state else gathered(tensor)
    return state if dist.get_rank() == 0 else {}


def gathered_optimizer_state(optimizer: Any) -> dict[str, Any]:
    """``optimizer.state_dict()`` with whole tensors on the first process. A collective."""
    own = optimizer.state_dict()
    # New dicts: those of the optimizer are the ones that it goes on with.
    state = {
        number: {name: gathered(value) if isinstance(value, DTensor) else value for name, value in values.items()}
        for number, values in own["state"].items()
    }
    return own | {"state": state}  # type: ignore[no-any-return]


def load_module_state(module: nn.Module, state: Mapping[str, Any], *, strict: bool) -> None:
    """Let each process take its part of a whole state; not a collective."""
    module.load_state_dict(dealt_state(state, module), strict=strict)


def load_optimizer_state(optimizer: Any, state: Mapping[str, Any]) -> None:
    """Let each process take its part of the whole state of an optimizer; not a collective."""
    parameters = numbered_parameters(optimizer)
    parts = {
        index: {name: _like_parameter(value, parameters[index]) for name, value in values.items()}
        for index, values in state["state"].items()
    }
    optimizer.load_state_dict({"state": parts, "param_groups": state["param_groups"]})


def numbered_parameters(optimizer: Any) -> list[Tensor]:
    """The parameters of an optimizer, as its state counts them."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _like_parameter(value: Any, parameter: Tensor) -> Any:
    """Moments are spread as their parameter is; numbers are not. In memory of its own: steps are counted in place."""
    if not isinstance(value, Tensor):
        return value
    return (
        own_part(value, parameter)
        if isinstance(parameter, DTensor) and value.shape == parameter.shape
        else value.clone()
    )
